-- List the events that a filter means with whatever is kept of their payloads, oldest first: a step of a walk. %(limit)s: how many.
-- Those of which all was erased before, and nothing has come since, are left out unless they are named by their rows.
-- Returns what fragments/event_columns says, then (headers as text, body, kept fields as text, headers and bodies of other deliveries
-- under its id, whether a review of it is open). Locks nothing.
-- Indexes: as list_oldest_events, audit_event, reviews_event.
SELECT {fragments/event_columns},
       b.headers::text, b.body, event.kept::text,
       ARRAY(SELECT c.headers::text FROM {schema}.conflicts c WHERE c.inbox_id = event.id ORDER BY c.body_sha256),
       ARRAY(SELECT c.body FROM {schema}.conflicts c WHERE c.inbox_id = event.id ORDER BY c.body_sha256),
       EXISTS (SELECT FROM {schema}.reviews r WHERE r.inbox_id = event.id AND r.resolved_at IS NULL)
FROM {schema}.inbox event
LEFT JOIN {schema}.bodies b ON b.received_at = event.received_at AND b.id = event.id
WHERE {fragments/meant_events}
  AND (cardinality(%(rows)s::bigint[]) > 0
       OR NOT EXISTS (SELECT FROM {schema}.audit a WHERE a.inbox_id = event.id AND a.action = 'erase')
       OR EXISTS (SELECT FROM {schema}.conflicts c WHERE c.inbox_id = event.id))
ORDER BY event.id
LIMIT %(limit)s::integer
