-- Count, of the latest %(latest)s events, those that nobody handled: (endpoint, event_type, count), most of them first.
-- Locks nothing. Index: primary key; the cost is bounded by %(latest)s, and the rows by %(limit)s.
SELECT endpoint, event_type, count(*)
FROM (SELECT endpoint, event_type, state, last_error FROM {schema}.inbox ORDER BY id DESC LIMIT %(latest)s) latest
WHERE state = 'ignored' AND last_error = 'no handler for ' || event_type
GROUP BY endpoint, event_type
ORDER BY count(*) DESC, endpoint, event_type
LIMIT %(limit)s
