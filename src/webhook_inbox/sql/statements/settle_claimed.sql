-- Take the row of a claimed event and settle it, in the transaction that holds its effect. %(state)s: processed, ignored or dead.
-- First of all and not last: it is one transaction, so the mark and the effect commit together in any order, and a row that is
-- locked and settled by one UPDATE leaves one dead version, not two. The server commits a processed one only once it is sealed.
-- Waits, never skips: as long as begin allows (then 55P03); the handler's own lock_timeout is restored.
-- No row comes back where the claim is no longer ours: the token, the incarnation or the state has moved on. P-FENCE, P-ONCE.
-- state || '': by inbox_leased, the planner's other choice, it would read past every event that this worker has settled since the
-- oldest transaction began. Returns (the transaction's id,). Index: primary key.
UPDATE {schema}.inbox
SET state = %(state)s::text,
    processed_at = CASE WHEN %(state)s::text = 'processed' THEN clock_timestamp() END,
    effect_transaction = CASE WHEN %(state)s::text = 'processed' THEN pg_current_xact_id() END,
    available_at = CASE WHEN %(state)s::text = 'dead' THEN clock_timestamp() ELSE available_at END,
    last_error = %(last_error)s::text, worker_id = NULL, solitary = false
WHERE id = %(id)s AND claims = %(token)s::integer AND worker_id = %(worker_id)s AND state || '' = 'leased'
RETURNING pg_current_xact_id()::text, set_config('lock_timeout', current_setting('webhook_inbox.lock_timeout'), true)
