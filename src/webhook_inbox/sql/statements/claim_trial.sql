-- Claim one due message of a destination that has taken nothing of late: of those that were tried the least often, the newest. So
-- messages that it will never take, however many, do not keep one that it would take from being tried. Otherwise as claim_messages, but
-- that it looks at all that are due, once for each trial. P-OUT, P-COUNT, P-FENCE, P-FLOW, P-CLOCK.
WITH due AS MATERIALIZED (
    SELECT message_id
    FROM {schema}.sends send
    WHERE {fragments/claimable_sends}
    ORDER BY claims, available_at DESC, position DESC
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), {fragments/claimed_messages}
