-- Stop claiming an endpoint's events; receiving goes on. %(by)s, %(reason)s: for the audit. Returns (name,); nothing, and changes nothing,
-- where it is paused already: who did it first is told.
WITH paused AS (
    INSERT INTO {schema}.endpoints AS e (name, paused_by) VALUES (%(name)s, %(by)s)
    ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by WHERE e.paused_at IS NULL
    RETURNING e.name
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint) SELECT %(by)s::text, 'pause', %(reason)s::text, name FROM paused
)
SELECT name FROM paused
