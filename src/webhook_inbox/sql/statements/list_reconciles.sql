-- List what came of the latest walk of each list: (endpoint, account, seen, present, recovered, failed, out_of_reach, seconds since where it
-- reached back to, seconds since it ended, seconds since the last that came to its end began, last_error); null where there was none. Locks nothing.
SELECT endpoint, account, seen, present, recovered, failed, out_of_reach,
       extract(epoch FROM now() - since)::float8, extract(epoch FROM now() - ended_at)::float8, extract(epoch FROM now() - complete_at)::float8, last_error
FROM {schema}.reconciles
ORDER BY endpoint, account
