-- Raise the version of a key, if the given one is not older than the newest applied. Returns (version,), or no row where it is stale.
-- Locks the key's row until the transaction ends, so that two events of one key take turns.
INSERT INTO {schema}.versions AS v (endpoint, key, version)
VALUES (%(endpoint)s, %(key)s, %(version)s::numeric)
ON CONFLICT (endpoint, key) DO UPDATE SET version = EXCLUDED.version WHERE v.version <= EXCLUDED.version
RETURNING version
