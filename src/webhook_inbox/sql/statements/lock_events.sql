-- Lock events that an operator is about to change, as process locks the one that it runs: of two, the second finds another state.
-- %(rows)s: which. %(from_states)s: in one of which they must be. Waits for whoever is changing one of them, up to lock_timeout.
-- A statement of its own: the next one sees what was committed before these locks were had, and so whether the bytes are still there.
-- Returns (id,). Locks the rows, in order of id. Index: primary key. P-FENCE, P-KEEP.
SELECT id
FROM {schema}.inbox
WHERE id = ANY (%(rows)s::bigint[]) AND state = ANY (%(from_states)s::text[])
ORDER BY id
FOR UPDATE
