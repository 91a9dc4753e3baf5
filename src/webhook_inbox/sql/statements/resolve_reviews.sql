-- Close reviews that are open, and keep who did it. %(reviews)s: their ids. %(actor)s, %(reason)s: what came of it.
-- Returns (id,) of each that was closed. Locks the rows. Index: primary key.
WITH closed AS (
    UPDATE {schema}.reviews
    SET resolved_at = clock_timestamp(), resolved_by = %(actor)s::text, resolution = %(reason)s::text
    WHERE id = ANY (%(reviews)s::bigint[]) AND resolved_at IS NULL
    RETURNING id, inbox_id, endpoint, event_id
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, inbox_id, event_id, before, after)
    SELECT %(actor)s::text, 'resolve', %(reason)s::text, endpoint, inbox_id, event_id, jsonb_build_object('review', id, 'open', true),
           jsonb_build_object('review', id, 'open', false)
    FROM closed
    ORDER BY id
)
SELECT id FROM closed
