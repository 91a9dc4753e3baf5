-- Write down up to when endpoints were looked through. %(endpoints)s, %(untils)s (microseconds since 1970), %(complete)s (whether from the
-- beginning on): arrays of equal length. %(stage)s: bodies, or events. Of two walks, the one that came further counts. Sorted, since two
-- that lock the same rows in other orders deadlock. Returns (endpoint,) of each. Index: prunes_pkey (the conflict target). P-CLOCK.
INSERT INTO {schema}.prunes AS known (endpoint, stage, reached_at, complete_at)
SELECT given.endpoint, %(stage)s, timestamptz 'epoch' + given.until * interval '1 microsecond',
       CASE WHEN given.complete THEN now() ELSE '-infinity' END
FROM unnest(%(endpoints)s::text[], %(untils)s::bigint[], %(complete)s::boolean[]) AS given (endpoint, until, complete)
ORDER BY given.endpoint
ON CONFLICT (endpoint, stage) DO UPDATE SET reached_at = greatest(known.reached_at, EXCLUDED.reached_at),
                                            complete_at = greatest(known.complete_at, EXCLUDED.complete_at)
RETURNING endpoint
