-- Claim due messages of one destination, oldest due first; rows that another session holds are skipped, not waited for.
-- Claim count (the fencing token) and attempt are raised here, and committed before anything is sent. Only the head of an order key is
-- claimable, and only where nothing of that key is leased; %(holding)s: whether a dead head holds its key.
-- Nobody claims under a lease that has ended, whatever the claimer's own clock says: it may have been suspended.
-- Times and shapes as claim_events; plain SQL may have written any created_at: it is brought into the years that the clients know.
-- Returns what a send requires, in the order in which the messages were written.
-- Indexes: sends_due, sends_order. P-OUT, P-COUNT, P-FENCE, P-FLOW, P-CLOCK.
WITH due AS MATERIALIZED (
    SELECT message_id
    FROM {schema}.sends send
    WHERE {fragments/claimable_sends}
    ORDER BY available_at, position
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
), {fragments/claimed_messages}
