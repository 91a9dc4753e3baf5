-- Renew a worker's lease, and with it the lease of every event it holds: one row, that no handler can lock. P-CLOCK.
-- Returns (id,), or no row where the incarnation is gone or was ended: its events are no longer its own.
UPDATE {schema}.workers
SET heartbeat_at = clock_timestamp(), lease_ends_at = clock_timestamp() + make_interval(secs => %(lease_seconds)s::float8)
WHERE id = %(worker_id)s AND NOT stopped
RETURNING id
