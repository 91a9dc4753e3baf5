-- Say which database a connection leads to: (its name, when its server was started, in microseconds since 1970).
SELECT current_database()::text, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
