-- Let the server commit %(events)s, which this transaction has marked processed and whose handlers have returned; take the marks of
-- %(undone)s back, whose handlers have not, and leave them to worker %(worker_id)s. Fails with WI001 unless the marks are there and it
-- is still the transaction with the id %(transaction)s, in which the handlers were called; with 42501 under another role than before;
-- with WI002 where several events share it and one has left search_path or the like to the next: each then gets one of its own.
-- The commit that follows is durable, and what the server says of it is heard, whatever a handler set. P-ONCE, P-ACK. Index: primary key.
SELECT {schema}.seal_effect(%(transaction)s::text, %(events)s::bigint[], %(undone)s::bigint[], %(worker_id)s::bigint),
       {fragments/hear_warnings}
