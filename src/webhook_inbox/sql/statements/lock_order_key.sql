-- Let one event of an order key run at a time, whatever was claimed: a transaction lock, so that it works behind any pooler.
-- %(wait_ms)s: how long to wait for whoever runs an event of this key.
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
)
SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox order ' || %(endpoint)s || ' ' || %(order_key)s, 0)) FROM wait
