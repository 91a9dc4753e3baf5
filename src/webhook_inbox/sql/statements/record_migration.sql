-- Record a migration in the transaction that applies it.
INSERT INTO {schema}.migrations (version, name, serves_from)
VALUES (%(version)s::integer, %(name)s, %(serves_from)s::integer)
RETURNING version
