-- Let the server commit %(events)s, which this transaction has marked processed: their handlers have returned, the marks are there,
-- and it is still the transaction with the id %(transaction)s, in which they were called; else WI001. Another role than before: 42501.
-- The commit that follows is durable, whatever a handler set. P-ONCE, P-ACK. Index: primary key.
SELECT {schema}.seal_effect(%(transaction)s::text, %(events)s::bigint[])
