-- Lock an event and mark it processed, as a run does, in a transaction that will be rolled back: until then no worker claims it, and the
-- server refuses every COMMIT. %(row_id)s. Waits for whoever is changing it, up to lock_timeout, which is then the handler's own again.
-- Returns (the transaction's id, the first id that several lockers of a row can get from now on), or no row: it is gone or
-- quarantined, or a worker holds it. Index: primary key. P-ONCE, P-FENCE.
UPDATE {schema}.inbox
SET state = 'processed', processed_at = clock_timestamp(), effect_transaction = pg_current_xact_id()
WHERE id = %(row_id)s::bigint AND state NOT IN ('leased', 'quarantined')
RETURNING pg_current_xact_id()::text, mxid_age('1')::bigint + 1,
          set_config('lock_timeout', current_setting('webhook_inbox.lock_timeout'), true)
