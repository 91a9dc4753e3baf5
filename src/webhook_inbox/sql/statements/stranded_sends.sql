-- Count the messages that wait for a destination which is not there. %(destinations)s: an array, those that there are.
-- Changes nothing. Returns (destination, how many). Index: sends_due, all of it: asked once, when a relay starts. P-KEEP.
SELECT destination, count(*)
FROM {schema}.sends
WHERE state IN ('waiting', 'retrying') AND destination <> ALL (%(destinations)s::text[])
GROUP BY destination
ORDER BY destination
LIMIT 100
