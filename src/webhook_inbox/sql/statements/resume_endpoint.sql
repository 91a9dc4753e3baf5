-- Claim an endpoint's events again. %(by)s, %(reason)s: for the audit. Returns (name,), or no row where it was not paused.
WITH resumed AS (
    UPDATE {schema}.endpoints SET paused_at = NULL, paused_by = '' WHERE name = %(name)s AND paused_at IS NOT NULL RETURNING name
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint) SELECT %(by)s::text, 'resume', %(reason)s::text, name FROM resumed
)
SELECT name FROM resumed
