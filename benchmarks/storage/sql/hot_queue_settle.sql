-- settle_set on both tables: the place in the queue goes, the event's own row gets its mark.
WITH held AS MATERIALIZED (
    SELECT q.id, q.attempts
    FROM unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS claim (id, token)
    JOIN webhooks.queue q ON q.id = claim.id AND q.claims = claim.token
    WHERE q.worker_id = %(worker_id)s AND q.state || '' = 'leased'
    ORDER BY q.id
    FOR UPDATE OF q SKIP LOCKED
), left_queue AS (
    DELETE FROM webhooks.queue WHERE id = ANY (ARRAY(SELECT held.id FROM held))
), marked AS (
    UPDATE webhooks.inbox i
    SET state = 'processed', processed_at = clock_timestamp(), effect_transaction = pg_current_xact_id(), last_error = NULL,
        attempts = held.attempts
    FROM held
    WHERE i.id = ANY (ARRAY(SELECT held.id FROM held)) AND i.id = held.id
    RETURNING i.id
)
SELECT id, pg_current_xact_id()::text,
       set_config('lock_timeout', set_config('webhook_inbox.lock_timeout', shared.lock_timeout, true), true)
FROM marked, (
    SELECT CASE WHEN own = '0' OR own::interval > %(lock_ms)s * interval '1 millisecond' THEN %(lock_ms)s::integer || 'ms' ELSE own END
    FROM current_setting('webhook_inbox.lock_timeout') own
) AS shared (lock_timeout)
