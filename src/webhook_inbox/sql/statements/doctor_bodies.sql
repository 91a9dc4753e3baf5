-- Look at the partitions of bodies: (whether events of the last two days are in the default one, how many of the next three days have one).
-- What was moved to the default one when its day was dropped is older. Locks nothing. Index: primary key.
SELECT EXISTS (SELECT FROM {schema}.bodies_default WHERE received_at > now() - interval '2 days'),
       (SELECT count(*)
        FROM generate_series(1, 3) ahead
        JOIN pg_catalog.pg_class c ON c.relname = 'bodies_' || to_char((now() AT TIME ZONE 'UTC')::date + ahead, 'YYYYMMDD')
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relispartition)
