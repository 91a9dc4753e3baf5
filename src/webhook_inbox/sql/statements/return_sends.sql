-- Return the messages of relays whose lease has ended. Each may have arrived, so it counts as an attempt, and waits the longer the more
-- often that happens: one that kills its relay must not stop the others. Not where the relay said that it ends, or the server itself
-- was started again since its last heartbeat. %(blaming)s: also of relays that did not say so.
-- Returns (destination, id, state, relay name). Rows that are locked are being settled. Index: sends_leased. P-OUT, P-FENCE, P-COUNT, P-CLOCK, P-KEEP.
WITH expired AS MATERIALIZED (
    SELECT s.message_id, s.destination, coalesce(w.name, 'a relay that is gone') AS name,
           coalesce(NOT w.stopped AND w.heartbeat_at >= pg_postmaster_start_time(), true) AS unexplained
    FROM {schema}.sends s
    LEFT JOIN {schema}.workers w ON w.id = s.worker_id
    WHERE s.state = 'leased' AND (w.id IS NULL OR w.lease_ends_at < clock_timestamp())
      AND (w.stopped OR %(blaming)s::boolean)
    ORDER BY s.message_id
    LIMIT %(limit)s::integer
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE {schema}.sends s
SET state = CASE WHEN expired.unexplained AND clock_timestamp() >= s.give_up_at THEN 'dead' ELSE 'retrying' END,
    give_up_at = CASE
        WHEN expired.unexplained THEN coalesce(s.give_up_at, clock_timestamp() + make_interval(secs => %(retry_seconds_max)s::float8))
        ELSE s.give_up_at END,
    available_at = clock_timestamp() + CASE
        WHEN expired.unexplained
            THEN make_interval(secs => random() * (least(%(backoff_seconds_max)s::float8, 2.0 ^ least(s.attempts - 1, 64)::float8) - 1.0))
        ELSE interval '0' END,
    attempts = s.attempts - (NOT expired.unexplained)::integer, worker_id = NULL,
    last_error = CASE WHEN expired.unexplained THEN 'the relay died while it was being sent'
                      ELSE 'the relay or the database was stopped while it was being sent' END
FROM expired
WHERE s.message_id = expired.message_id AND s.destination = expired.destination
RETURNING s.destination, s.message_id::text, s.state, expired.name
