-- Take claimed events out of the bucket of their endpoint's rate, see measure_limits; the caller holds its lock.
-- %(begun)s: how many. Returns (in how many seconds one more may begin, 0 where it may now), or no row where there is no rate. P-CLOCK.
UPDATE {schema}.endpoints e
SET spent_until = greatest(e.spent_until, moment.now - greatest(e.every, interval '1 second')) + %(begun)s::integer * e.every
FROM (SELECT clock_timestamp() AS now) moment
WHERE e.name = %(name)s AND e.every IS NOT NULL
RETURNING greatest(0, extract(epoch FROM e.spent_until + e.every - moment.now))::float8
