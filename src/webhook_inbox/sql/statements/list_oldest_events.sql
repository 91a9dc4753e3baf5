-- List the events that a filter means, oldest first; otherwise as list_newest_events.
SELECT {fragments/event_columns}
FROM {schema}.inbox event
WHERE {fragments/meant_events}
ORDER BY event.id
LIMIT %(limit)s::integer
