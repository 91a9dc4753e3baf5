-- Take turns with other relays, until the transaction ends. %(what)s: the schema and, of an ordered destination, its name.
SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox outbox ' || %(what)s::text, 0))
