-- Find where in the order of arrival a time lies: the row id before which everything was received before it.
-- %(at)s: microseconds since 1970, or with %(ago)s microseconds before now. Ids follow the order of arrival as closely as transactions
-- do; the caller allows for what does not. A binary search: no index on the time is worth what each event would pay for it.
-- Returns (the time in microseconds since 1970, the row id; 0 where there is no event). Locks nothing. Index: primary key. P-CLOCK.
WITH RECURSIVE sought AS MATERIALIZED (
    SELECT CASE WHEN %(ago)s::boolean THEN clock_timestamp() - %(at)s::bigint * interval '1 microsecond'
                ELSE timestamptz 'epoch' + %(at)s::bigint * interval '1 microsecond' END AS at
), search AS (
    SELECT min(id) AS low, max(id) + 1 AS high FROM {schema}.inbox
    UNION ALL
    SELECT CASE WHEN probe.earlier THEN probe.middle + 1 ELSE probe.low END, CASE WHEN probe.earlier THEN probe.high ELSE probe.middle END
    FROM (
        SELECT low, high, (low + high) / 2 AS middle,
               (SELECT i.received_at FROM {schema}.inbox i WHERE i.id >= (low + high) / 2 ORDER BY i.id LIMIT 1)
               < (SELECT sought.at FROM sought) AS earlier
        FROM search
        WHERE low < high
    ) probe
)
SELECT (extract(epoch FROM sought.at) * 1000000)::bigint, coalesce((SELECT max(low) FROM search WHERE low >= high), 0)
FROM sought
