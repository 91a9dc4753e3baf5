-- Take the row of a claimed event for the transaction that will hold its effect; waits, never skips.
-- No row comes back where the claim is no longer ours: the token, the incarnation or the state has moved on. P-FENCE, P-ONCE.
-- %(wait_ms)s: how long to wait for whoever has locked the row; %(lock_timeout)s: restored for the handler, which waits for its own
-- locks as it always does.
-- From here to the mark the server refuses a COMMIT (see refuse_unmarked_event).
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
)
UPDATE {schema}.inbox
SET open_transaction = pg_current_xact_id()
FROM wait
WHERE id = %(id)s AND claims = %(token)s::integer AND worker_id = %(worker_id)s AND state = 'leased'
RETURNING id, set_config('lock_timeout', %(lock_timeout)s, true)
