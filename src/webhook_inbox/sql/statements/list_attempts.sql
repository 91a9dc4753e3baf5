-- List the runs of an event that did not end in processed, oldest first: (attempt, worker, started at in microseconds since 1970,
-- seconds, outcome, error_type, sqlstate, error, traceback). %(row_id)s. Index: attempts_event.
SELECT attempt, worker, (extract(epoch FROM started_at) * 1000000)::bigint, seconds, outcome, error_type, sqlstate, error, traceback
FROM {schema}.attempts
WHERE inbox_id = %(row_id)s::bigint
ORDER BY id
