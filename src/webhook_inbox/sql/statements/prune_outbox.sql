-- Delete messages that every destination has confirmed, oldest first, with their rows in sends. %(seconds)s: how long ago. What is not
-- sent, dead or unrouted has no published_at, and stays. Returns (how many,). Index: outbox_published. P-KEEP.
WITH old AS MATERIALIZED (
    SELECT id
    FROM {schema}.outbox
    WHERE published_at < now() - make_interval(secs => %(seconds)s::float8)
    ORDER BY published_at
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM {schema}.outbox WHERE id = ANY (ARRAY(SELECT old.id FROM old)) RETURNING id
)
SELECT count(*) FROM deleted
