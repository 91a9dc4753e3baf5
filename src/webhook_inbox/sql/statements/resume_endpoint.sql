-- Claim an endpoint's events again. Returns (name,), or no row where it was not paused.
DELETE FROM {schema}.endpoints WHERE name = %(name)s RETURNING name
