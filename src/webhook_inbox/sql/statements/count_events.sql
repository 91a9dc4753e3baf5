-- Count the events that a filter means, by state: (state, count). Parameters, locks and indexes: as list_newest_events.
SELECT event.state, count(*)
FROM {schema}.inbox event
WHERE {fragments/meant_events}
GROUP BY event.state
ORDER BY event.state
