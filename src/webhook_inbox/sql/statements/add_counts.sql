-- Add to the counters of the ten minutes that are running. Sorted, since two processes that lock the same rows in other orders deadlock.
--
-- Parameters: endpoints, outcomes, reasons text[]; numbers bigint[], all of one length, without a repeated row.
-- Locks:      the rows that it adds to, until the transaction ends.
-- Index:      counters_pkey (the conflict target).
-- Returns:    how many rows, and a setting. Its commit waits for no disk and no standby: nothing is promised of counts.
WITH added AS (
    INSERT INTO {schema}.counters AS known (began_at, endpoint, outcome, reason, number)
    SELECT date_bin(interval '10 minutes', statement_timestamp(), timestamptz 'epoch'), given.endpoint, given.outcome, given.reason, given.number
    FROM unnest(%(endpoints)s::text[], %(outcomes)s::text[], %(reasons)s::text[], %(numbers)s::bigint[]) AS given (endpoint, outcome, reason, number)
    ORDER BY 2, 3, 4
    ON CONFLICT (began_at, endpoint, outcome, reason) DO UPDATE SET number = known.number + EXCLUDED.number
    RETURNING 1
)
SELECT count(*)::integer, set_config('synchronous_commit', 'off', true) FROM added
