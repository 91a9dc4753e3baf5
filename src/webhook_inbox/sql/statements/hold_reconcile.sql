-- Let one process at a time walk a list. %(seconds)s: until another may, unless it is held again before. Returns (now, made_at, began_at, since,
-- complete_at, noted_at in microseconds since 1970, cursor, seen, present, recovered, failed, out_of_reach) of the walk before, or no row: another is at it.
-- Locks the row of the list, until the transaction ends. P-CLOCK, P-FIND.
INSERT INTO {schema}.reconciles AS list (endpoint, account, holder, held_until)
VALUES (%(endpoint)s, %(account)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s::float8))
ON CONFLICT (endpoint, account) DO UPDATE SET holder = EXCLUDED.holder, held_until = EXCLUDED.held_until
WHERE list.held_until < clock_timestamp()
RETURNING (extract(epoch FROM now()) * 1000000)::bigint, (extract(epoch FROM made_at) * 1000000)::bigint,
          (extract(epoch FROM began_at) * 1000000)::bigint, (extract(epoch FROM since) * 1000000)::bigint,
          (extract(epoch FROM complete_at) * 1000000)::bigint, (extract(epoch FROM noted_at) * 1000000)::bigint, cursor, seen, present, recovered, failed, out_of_reach
