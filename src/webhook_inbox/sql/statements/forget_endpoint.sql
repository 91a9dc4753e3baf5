-- Forget what was said of an endpoint that is neither paused nor limited any more. Returns (name,), or no row where it is either.
DELETE FROM {schema}.endpoints WHERE name = %(name)s AND paused_at IS NULL AND limited_at IS NULL RETURNING name
