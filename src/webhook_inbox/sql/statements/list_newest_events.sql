-- List the events that a filter means, newest first, at most %(limit)s; see the fragments for the other parameters and the columns.
-- Locks nothing. Indexes: primary key; inbox_attention, inbox_unfinished or inbox_due where the state is one of theirs.
SELECT {fragments/event_columns}
FROM {schema}.inbox event
WHERE {fragments/meant_events}
ORDER BY event.id DESC
LIMIT %(limit)s::integer
