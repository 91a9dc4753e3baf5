-- Read the settings that a session of this user begins with: (name, value), times in milliseconds. Locks nothing.
SELECT name, reset_val
FROM pg_catalog.pg_settings
WHERE name IN ('autovacuum', 'fsync', 'full_page_writes', 'idle_in_transaction_session_timeout', 'max_connections', 'server_encoding',
               'statement_timeout', 'superuser_reserved_connections', 'synchronous_commit', 'transaction_timeout')
