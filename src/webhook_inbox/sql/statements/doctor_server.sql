-- Look at the server: (process id of the session, seconds since 1970 on its clock, whether this transaction may only read, seconds of
-- the oldest open or prepared transaction of this database, null where there is none that this user may see). Locks nothing. P-CLOCK.
SELECT pg_backend_pid(), extract(epoch FROM clock_timestamp())::float8, current_setting('transaction_read_only') = 'on',
       (SELECT extract(epoch FROM clock_timestamp() - min(began))::float8
        FROM (SELECT xact_start FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
              UNION ALL
              SELECT prepared FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()) open (began))
