-- Lock messages that are about to be settled, in one order: of two destinations that confirm a message at the same time, the second
-- sees what the first has written, and so publishes it. %(ids)s: an array. Index: primary key.
SELECT 1 FROM {schema}.outbox WHERE id = ANY (%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE
