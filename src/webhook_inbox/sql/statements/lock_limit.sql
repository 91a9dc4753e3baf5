-- Lock an endpoint's limit, so that one worker at a time claims within it; one that somebody else has locked is not waited for.
-- Returns (name,), or no row where it is locked, or the endpoint is not limited. P-FLOW.
SELECT name FROM {schema}.endpoints WHERE name = %(name)s AND limited_at IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED
