-- Let one migrator through at a time; the lock ends with the transaction, so a killed migrator holds nothing.
-- %(schema)s: the schema's name, unquoted. The key is derived from it, so that two schemas of one database do not wait for each other.
-- %(lock_ms)s: milliseconds that this lock and each lock of the step may be waited for. Whoever waits for a table makes every later
-- query on it wait behind, so a migrator that waits without end is an outage. A statement itself may take as long as it needs.
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(lock_ms)s::bigint || 'ms', true), set_config('statement_timeout', '0', true)
)
SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations ' || %(schema)s, 0)) FROM limits
