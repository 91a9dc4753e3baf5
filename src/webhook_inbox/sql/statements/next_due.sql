-- Say in how many seconds the next event of %(endpoints)s is due: (seconds,), null where there is none. Index: inbox_due. P-CLOCK.
SELECT extract(epoch FROM min(due.available_at) - clock_timestamp())::float8
FROM unnest(%(endpoints)s::text[]) AS e (name)
CROSS JOIN LATERAL (
    SELECT available_at FROM {schema}.inbox
    WHERE endpoint = e.name AND state IN ('waiting', 'retrying')
    ORDER BY available_at, id LIMIT 1
) due
