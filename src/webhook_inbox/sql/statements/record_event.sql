-- Record an event and its bytes, once: no row comes back where the event key is taken.
-- %(state)s 'processed': the handler runs in this very transaction, which the server commits only once it is sealed; the mark goes in
-- with the row, so an inline event is written once.
-- %(wait_ms)s: how long to wait for a rival, in milliseconds; the handler's own lock_timeout, which begin has put aside
-- unless another handler has said RESET ALL, is restored as soon as the key is ours.
-- Returns (id, received_at in microseconds since 1970: no DateStyle or TimeZone of the session can change that; the transaction's id).
-- Waits, up to wait_ms (then 55P03), for another transaction that holds the same key; then that one's fate decides: committed, no
-- row; rolled back, the row is ours. Index: inbox_event_key. P-DUP, P-ONCE, P-RAW.
WITH wait AS MATERIALIZED (
    SELECT coalesce(nullif(current_setting('webhook_inbox.lock_timeout', true), ''), current_setting('lock_timeout')) AS handlers,
           set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), event AS (
    INSERT INTO {schema}.inbox
        (provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
         body_sha256, body_bytes, kept, last_error, attempts, processed_at, effect_transaction)
    SELECT
        %(provider)s, %(endpoint)s, %(account)s, %(environment)s, %(event_id)s, %(event_type)s, %(state)s, %(origin)s,
         %(created_at)s::timestamptz, %(secret_label)s, %(body_sha256)s::bytea, %(body_bytes)s::integer, %(kept)s::jsonb,
         %(last_error)s::text, %(attempts)s::integer, CASE WHEN %(state)s = 'processed' THEN clock_timestamp() END,
         CASE WHEN %(state)s = 'processed' THEN pg_current_xact_id() END
    FROM wait
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at
), stored AS (
    INSERT INTO {schema}.bodies (received_at, id, body, headers)
    SELECT received_at, id, %(body)s::bytea, %(headers)s::jsonb FROM event WHERE %(keep_body)s::boolean
)
SELECT id, (extract(epoch FROM received_at) * 1000000)::bigint, pg_current_xact_id()::text,
       set_config('lock_timeout', wait.handlers, true)
FROM event, wait
