-- Give claims back unrun, without cost: the worker stops, or the database was away. %(ids)s, %(tokens)s: arrays of equal length.
-- Returns (id,) of each event given back. P-COUNT, P-FENCE.
UPDATE {schema}.inbox i
SET state = CASE WHEN i.give_up_at IS NULL AND i.crashes = 0 THEN 'waiting' ELSE 'retrying' END,
    attempts = i.attempts - 1, worker_id = NULL, available_at = clock_timestamp() + make_interval(secs => %(retry_in_seconds)s::float8)
FROM unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS given (id, token)
WHERE i.id = given.id AND i.claims = given.token AND i.worker_id = %(worker_id)s AND i.state = 'leased'
RETURNING i.id
