-- Tell of everything that handlers asked a person to look at, oldest first: endpoint, event id, summary, details as JSON text, and
-- whether it is resolved. For tests: it reads the whole table.
SELECT endpoint, event_id, summary, details::text, resolved_at IS NOT NULL
FROM {schema}.reviews
ORDER BY id
