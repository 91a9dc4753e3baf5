-- Mark an event processed, as the last write of the transaction that recorded it.
-- No row comes back where this is another transaction than the one that recorded it: the handler ended that one. P-ONCE.
-- The commit that follows is durable, whatever the handler set. P-ACK. Index: primary key.
UPDATE {schema}.inbox
SET state = 'processed', processed_at = clock_timestamp(), attempts = attempts + 1, open_transaction = NULL
WHERE id = %(id)s AND open_transaction = pg_current_xact_id()
RETURNING id, set_config('synchronous_commit',
                         CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)
