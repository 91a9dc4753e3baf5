-- Take the rows of several claimed events and mark them processed, in the transaction in which a set-based handler runs for all of
-- them; otherwise as settle_claimed. %(ids)s, %(tokens)s: arrays of equal length, in the order in which the rows are locked.
-- Returns (id, the transaction's id) of those whose claim is still ours. P-FENCE, P-ONCE. Index: primary key.
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), marked AS (
    UPDATE {schema}.inbox i
    SET state = 'processed', processed_at = clock_timestamp(), effect_transaction = pg_current_xact_id(), last_error = NULL,
        worker_id = NULL, solitary = false
    FROM wait, unnest(%(ids)s::bigint[], %(tokens)s::integer[]) AS held (id, token)
    WHERE i.id = held.id AND i.claims = held.token AND i.worker_id = %(worker_id)s AND i.state || '' = 'leased'
    RETURNING i.id
)
SELECT id, pg_current_xact_id()::text, set_config('lock_timeout', current_setting('webhook_inbox.lock_timeout'), true) FROM marked
