-- Raise the version of a key, if the given one is not older than the newest applied. %(inbox_id)s: the row of
-- the event that has it. Returns (version,), or no row where it is stale.
-- Locks the key's row until the transaction ends, so that two events of one key take turns.
INSERT INTO {schema}.versions AS v (endpoint, key, version, inbox_id)
VALUES (%(endpoint)s, %(key)s, %(version)s::numeric, %(inbox_id)s::bigint)
ON CONFLICT (endpoint, key) DO UPDATE SET version = EXCLUDED.version, inbox_id = EXCLUDED.inbox_id WHERE v.version <= EXCLUDED.version
RETURNING version
