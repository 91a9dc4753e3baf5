-- Count the events that are not settled: (endpoint, state, count, seconds since the oldest was received), by endpoint and state.
-- Indexes: inbox_unfinished, inbox_attention; the cost does not grow with what is processed.
SELECT endpoint, state, count(*), extract(epoch FROM clock_timestamp() - min(received_at))::float8
FROM (
    SELECT endpoint, state, received_at FROM {schema}.inbox WHERE state IN ('waiting', 'leased', 'retrying')
    UNION ALL
    SELECT endpoint, state, received_at FROM {schema}.inbox WHERE state IN ('dead', 'quarantined')
) unsettled
GROUP BY endpoint, state
ORDER BY endpoint, state
