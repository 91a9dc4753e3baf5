-- Wake idle workers; a hint and never more, outside of any transaction that holds an event: NOTIFY takes a database-wide lock at commit.
SELECT pg_notify(%(channel)s, '')
