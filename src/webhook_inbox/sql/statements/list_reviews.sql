-- List what handlers asked a person to look at, oldest first. %(review_id)s: only this one; 0: any. %(open)s: only those that nobody
-- has resolved. %(endpoint)s: '' for any. %(after)s: the id that the page before ended with. %(limit)s. Times as microseconds since 1970.
-- Returns (id, inbox_id, endpoint, event_id, summary, details as text, created_at, resolved_at, resolved_by, resolution).
-- Locks nothing. Indexes: reviews_open, primary key.
SELECT id, inbox_id, endpoint, event_id, summary, details::text, (extract(epoch FROM created_at) * 1000000)::bigint,
       (extract(epoch FROM resolved_at) * 1000000)::bigint, resolved_by, resolution
FROM {schema}.reviews
WHERE (%(review_id)s::bigint = 0 OR id = %(review_id)s::bigint)
  AND (NOT %(open)s::boolean OR resolved_at IS NULL)
  AND (%(endpoint)s::text = '' OR endpoint = %(endpoint)s::text)
  AND id > %(after)s::bigint
ORDER BY id
LIMIT %(limit)s::integer
