-- List the endpoints that events have come to, and those that are paused or limited: (endpoint, provider, '' where nothing has come;
-- paused_at, paused_by; limited_at, limited_by, concurrency, rate_events, rate_seconds); times in microseconds since 1970. Locks nothing. Index: inbox_event_key, one probe for each endpoint: there are few of them.
WITH RECURSIVE prefix AS (
    (SELECT provider, endpoint FROM {schema}.inbox ORDER BY provider, endpoint LIMIT 1)
    UNION ALL
    SELECT following.* FROM prefix, LATERAL (
        SELECT i.provider, i.endpoint FROM {schema}.inbox i
        WHERE (i.provider, i.endpoint) > (prefix.provider, prefix.endpoint)
        ORDER BY i.provider, i.endpoint LIMIT 1
    ) following
)
SELECT coalesce(prefix.endpoint, held.name), coalesce(prefix.provider, ''),
       (extract(epoch FROM held.paused_at) * 1000000)::bigint, held.paused_by,
       (extract(epoch FROM held.limited_at) * 1000000)::bigint, held.limited_by, held.concurrency, held.rate_events, held.rate_seconds
FROM prefix
FULL JOIN {schema}.endpoints held ON held.name = prefix.endpoint
ORDER BY 1, 2
