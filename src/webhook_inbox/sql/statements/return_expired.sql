-- Return the events of workers whose lease has ended: each counts as a crash under its event, which runs alone from now on, and
-- is dead after %(crashes_max)s; not where the worker was told to stop, or the server itself was started again since the worker's
-- last heartbeat, or the event was to run alone and the worker held others, so that it had not begun: that explains it, and costs
-- no attempt. A row that is locked is still being worked on and is skipped: its
-- transaction may yet commit, and then it is processed. Each run that ended so is kept in the history, from the last sign of life.
-- %(blaming)s: also of workers that did not say that they end. Returns (endpoint, event_id, state, worker name). Index: inbox_leased. P-FENCE, P-COUNT, P-CLOCK, P-KEEP.
WITH expired AS MATERIALIZED (
    SELECT i.id, w.name, w.heartbeat_at,
           coalesce(NOT w.stopped AND w.heartbeat_at >= pg_postmaster_start_time(), true)
           AND NOT (i.solitary AND EXISTS (
               SELECT FROM {schema}.inbox other
               WHERE other.worker_id = i.worker_id AND other.state = 'leased' AND other.id <> i.id
           )) AS unexplained
    FROM {schema}.inbox i
    LEFT JOIN {schema}.workers w ON w.id = i.worker_id
    WHERE i.state = 'leased' AND (w.id IS NULL OR w.lease_ends_at < clock_timestamp())
      AND (w.stopped OR %(blaming)s::boolean)
    ORDER BY i.id
    LIMIT %(limit)s::integer
    FOR UPDATE OF i SKIP LOCKED
), history AS (
    INSERT INTO {schema}.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error)
    SELECT i.id, i.attempts, i.claims, coalesce(expired.name, 'a worker that is gone'),
           coalesce(expired.heartbeat_at, clock_timestamp()),
           coalesce(extract(epoch FROM clock_timestamp() - expired.heartbeat_at), 0),
           CASE WHEN expired.unexplained THEN 'crashed' ELSE 'interrupted' END,
           CASE WHEN expired.unexplained THEN 'the worker died under this event'
                ELSE 'the worker or the database was stopped under this event' END
    FROM expired JOIN {schema}.inbox i ON i.id = expired.id
)
UPDATE {schema}.inbox i
SET state = CASE WHEN expired.unexplained AND i.crashes + 1 >= %(crashes_max)s::integer THEN 'dead' ELSE 'retrying' END,
    crashes = i.crashes + expired.unexplained::integer, solitary = i.solitary OR expired.unexplained,
    attempts = i.attempts - (NOT expired.unexplained)::integer, worker_id = NULL, available_at = clock_timestamp(),
    last_error = CASE WHEN expired.unexplained THEN 'the worker died under this event'
                      ELSE 'the worker or the database was stopped under this event' END
FROM expired WHERE i.id = expired.id
RETURNING i.endpoint, i.event_id, i.state, coalesce(expired.name, 'a worker that is gone')
