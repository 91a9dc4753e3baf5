-- settle_set on the narrow row.
WITH held AS MATERIALIZED (
    SELECT q.id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS claim (id, token)
    JOIN webhooks.queue q ON q.id = claim.id AND q.claims = claim.token
    WHERE q.worker_id = %(worker_id)s AND q.state || '' = 'leased'
    ORDER BY q.id
    FOR UPDATE OF q SKIP LOCKED
), marked AS (
    UPDATE webhooks.queue
    SET state = 'processed', processed_at = clock_timestamp(), effect_transaction = pg_current_xact_id(), worker_id = NULL,
        solitary = false
    WHERE id = ANY (ARRAY(SELECT held.id FROM held))
    RETURNING id
)
SELECT id, pg_current_xact_id()::text,
       set_config('lock_timeout', set_config('webhook_inbox.lock_timeout', shared.lock_timeout, true), true)
FROM marked, (
    SELECT CASE WHEN own = '0' OR own::interval > %(lock_ms)s * interval '1 millisecond' THEN %(lock_ms)s::integer || 'ms' ELSE own END
    FROM current_setting('webhook_inbox.lock_timeout') own
) AS shared (lock_timeout)
