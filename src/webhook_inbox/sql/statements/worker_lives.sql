-- Say whether a worker or a relay has a lease that runs, but for the process called %(besides)s. Returns (boolean,). P-CLOCK.
-- Locks nothing; the table has a row for each incarnation of the last hour.
SELECT EXISTS (
    SELECT FROM {schema}.workers WHERE lease_ends_at > clock_timestamp() AND NOT stopped AND name <> %(besides)s
)
