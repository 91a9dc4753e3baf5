-- Give claims back unrun, without cost: the worker stops, or the database was away. %(ids)s, %(tokens)s: arrays of equal length.
-- A row that somebody has locked is not waited for: it must not hold the others, nor the worker.
-- Returns (id,) of each event that is still held because its row is locked. P-COUNT, P-FENCE, P-FLOW.
WITH held AS MATERIALIZED (
    SELECT i.id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS given (id, token)
    JOIN {schema}.inbox i ON i.id = given.id AND i.claims = given.token
    WHERE i.worker_id = %(worker_id)s AND i.state = 'leased'
), free AS MATERIALIZED (
    SELECT i.id
    FROM {schema}.inbox i
    JOIN unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS given (id, token) ON i.id = given.id AND i.claims = given.token
    WHERE i.worker_id = %(worker_id)s AND i.state = 'leased'
    ORDER BY i.id
    FOR UPDATE OF i SKIP LOCKED
), returned AS (
    UPDATE {schema}.inbox i
    SET state = CASE WHEN i.give_up_at IS NULL AND i.crashes = 0 THEN 'waiting' ELSE 'retrying' END,
        attempts = i.attempts - 1, worker_id = NULL,
        available_at = clock_timestamp() + make_interval(secs => %(retry_in_seconds)s::float8)
    FROM free WHERE i.id = free.id
    RETURNING i.id
)
SELECT held.id FROM held WHERE NOT EXISTS (SELECT FROM returned WHERE returned.id = held.id)
