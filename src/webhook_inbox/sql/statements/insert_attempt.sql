-- Keep the history of a run that did not end in processed. %(seconds)s: how long it took; it began that long ago.
INSERT INTO {schema}.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error_type, sqlstate, error, traceback)
VALUES (%(inbox_id)s, %(attempt)s, %(claim)s, %(worker)s, clock_timestamp() - make_interval(secs => %(seconds)s::float8),
        %(seconds)s::float8, %(outcome)s, %(error_type)s, %(sqlstate)s, %(error)s, %(traceback)s)
RETURNING id
