-- Write down how far a walk has come. %(seconds)s: for how long it is held on, 0 where it ends; %(ended)s: whether it does;
-- %(complete_at)s: when a walk that came to its end began, null: as before. Returns (endpoint,), or no row: another process has taken the walk over.
-- Locks the row of the list, until the transaction ends. P-CLOCK, P-FIND.
UPDATE {schema}.reconciles
SET held_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8),
    began_at = %(began_at)s, since = %(since)s, cursor = %(cursor)s, noted_at = clock_timestamp(),
    seen = %(seen)s, present = %(present)s, recovered = %(recovered)s, failed = %(failed)s, out_of_reach = %(out_of_reach)s,
    complete_at = coalesce(%(complete_at)s::timestamptz, complete_at),
    ended_at = CASE WHEN %(ended)s::boolean THEN clock_timestamp() ELSE ended_at END,
    last_error = %(last_error)s
WHERE endpoint = %(endpoint)s AND account = %(account)s AND holder = %(holder)s
RETURNING endpoint
