-- Limit an endpoint to this, whatever it was limited to before. Null: not bounded; all of them null: not limited any more.
-- %(concurrency)s: events leased at once. %(rate_events)s in %(rate_seconds)s: events claimed in a time, which counts from now on: the
-- first is one *every* away. %(by)s, %(reason)s: for the audit.
-- The former limit is read by a join, before anything is written: what this statement has changed, it would not see.
-- Returns (name,); nothing, and changes nothing, where that is the limit already. Waits for a worker that claims within it. P-CLOCK.
WITH former AS MATERIALIZED (
    SELECT concurrency, rate_events, rate_seconds FROM {schema}.endpoints WHERE name = %(name)s FOR NO KEY UPDATE
), limited AS (
    INSERT INTO {schema}.endpoints AS e
        (name, paused_at, concurrency, rate_events, rate_seconds, spent_until, limited_at, limited_by)
    SELECT %(name)s, NULL, given.concurrency, given.rate_events, given.rate_seconds, clock_timestamp(),
           CASE WHEN given.bounds THEN clock_timestamp() END, CASE WHEN given.bounds THEN %(by)s::text ELSE '' END
    FROM (
        SELECT %(concurrency)s::integer AS concurrency, %(rate_events)s::integer AS rate_events, %(rate_seconds)s::integer AS rate_seconds,
               coalesce(%(concurrency)s::integer, %(rate_events)s::integer) IS NOT NULL AS bounds
    ) given
    CROSS JOIN (SELECT count(*) AS rows FROM former) was
    WHERE given.bounds OR was.rows > 0
    ON CONFLICT (name) DO UPDATE
    SET concurrency = excluded.concurrency, rate_events = excluded.rate_events, rate_seconds = excluded.rate_seconds,
        spent_until = excluded.spent_until, limited_at = excluded.limited_at, limited_by = excluded.limited_by
    WHERE (e.concurrency, e.rate_events, e.rate_seconds)
          IS DISTINCT FROM (excluded.concurrency, excluded.rate_events, excluded.rate_seconds)
    RETURNING e.name, e.concurrency, e.rate_events, e.rate_seconds, e.limited_at
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, before, after)
    SELECT %(by)s::text, CASE WHEN limited.limited_at IS NULL THEN 'unlimit' ELSE 'limit' END, %(reason)s::text, limited.name,
           (SELECT jsonb_strip_nulls(to_jsonb(former)) FROM former),
           jsonb_strip_nulls(jsonb_build_object('concurrency', limited.concurrency, 'rate_events', limited.rate_events,
                                                'rate_seconds', limited.rate_seconds))
    FROM limited
)
SELECT name FROM limited
