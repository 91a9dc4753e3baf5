-- Stop claiming an endpoint's events; receiving goes on. Returns (name,).
INSERT INTO {schema}.endpoints (name, paused_by) VALUES (%(name)s, %(by)s)
ON CONFLICT (name) DO UPDATE SET paused_by = EXCLUDED.paused_by
RETURNING name
