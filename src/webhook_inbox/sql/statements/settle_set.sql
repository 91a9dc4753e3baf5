-- Take the rows of several claimed events and mark them processed, in the one transaction in which the handlers of all of them run.
-- Skips what somebody has locked: it is run by itself, and waits there. Otherwise as settle_claimed; what fails is unmarked by
-- seal_effect. %(ids)s, %(tokens)s: arrays of equal length. %(lock_ms)s: how long a handler may wait for a lock while it shares the
-- transaction, whose other events hold theirs meanwhile; a stricter limit of its own stays.
-- Returns (id, the transaction's id) of those that are marked. P-FENCE, P-ONCE, P-FLOW. Index: primary key.
WITH held AS MATERIALIZED (
    SELECT i.id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS claim (id, token)
    JOIN {schema}.inbox i ON i.id = claim.id AND i.claims = claim.token
    WHERE i.worker_id = %(worker_id)s AND i.state || '' = 'leased'
    ORDER BY i.id
    FOR UPDATE OF i SKIP LOCKED
), marked AS (
    UPDATE {schema}.inbox
    SET state = 'processed', processed_at = clock_timestamp(), effect_transaction = pg_current_xact_id(), last_error = NULL,
        worker_id = NULL, solitary = false
    WHERE id = ANY (ARRAY(SELECT held.id FROM held))
    RETURNING id
)
SELECT id, pg_current_xact_id()::text,
       set_config('lock_timeout', set_config('webhook_inbox.lock_timeout', shared.lock_timeout, true), true)
FROM marked, (
    SELECT CASE WHEN own = '0' OR own::interval > %(lock_ms)s * interval '1 millisecond' THEN %(lock_ms)s::integer || 'ms' ELSE own END
    FROM current_setting('webhook_inbox.lock_timeout') own
) AS shared (lock_timeout)
