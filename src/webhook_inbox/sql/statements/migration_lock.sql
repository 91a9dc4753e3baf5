-- Let one migrator through at a time; the lock ends with the transaction, so a killed migrator holds nothing.
-- %(schema)s: the schema's name, unquoted. The key is derived from it, so that two schemas of one database do not wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations ' || %(schema)s, 0))
