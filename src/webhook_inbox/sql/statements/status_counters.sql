-- Add up what left no row in the last hour; of the ten minutes that the hour began in, nothing.
--
-- Returns: endpoint, outcome, reason and number, the most first.
-- Index:   counters_pkey.
SELECT endpoint, outcome, reason, sum(number)::bigint
FROM {schema}.counters
WHERE began_at > statement_timestamp() - interval '1 hour'
GROUP BY endpoint, outcome, reason
ORDER BY 4 DESC, 1, 2, 3
