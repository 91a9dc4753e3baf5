-- Settle a claimed event in the transaction that holds its effect. %(state)s: processed, ignored or dead.
-- No row comes back where this is another transaction than the one that opened it, or the token has moved on. P-ONCE, P-FENCE.
UPDATE {schema}.inbox
SET state = %(state)s::text, processed_at = CASE WHEN %(state)s::text = 'processed' THEN clock_timestamp() END,
    available_at = CASE WHEN %(state)s::text = 'dead' THEN clock_timestamp() ELSE available_at END,
    last_error = %(last_error)s::text, open_transaction = NULL, worker_id = NULL, solitary = false
WHERE id = %(id)s AND claims = %(token)s::integer AND open_transaction = pg_current_xact_id()
RETURNING id
