-- Let one event of an order key run at a time, whatever was claimed: a transaction lock, so that it works behind any pooler.
-- %(wait_ms)s: how long to wait for whoever runs an event of this key (then 55P03); the handler's own lock_timeout is restored.
WITH wait AS MATERIALIZED (
    SELECT coalesce(nullif(current_setting('webhook_inbox.lock_timeout', true), ''), current_setting('lock_timeout')) AS handlers,
           set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox order ' || %(endpoint)s || ' ' || %(order_key)s, 0)) FROM wait
)
SELECT set_config('lock_timeout', wait.handlers, true) FROM turn, wait
