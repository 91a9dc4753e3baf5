-- Wake idle workers; a hint and never more, outside of any transaction that holds an event: NOTIFY takes a database-wide lock at commit.
-- Nothing waits for the disk on its behalf: a hint that a crash of the server loses is replaced by polling.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, '')
