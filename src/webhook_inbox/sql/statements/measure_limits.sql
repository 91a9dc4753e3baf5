-- Say what the limits of endpoints leave. %(endpoints)s: their names; one that is paused, or not limited, is left out.
-- A statement of its own, after lock_limit: only so it sees all that was committed before that lock was had.
-- What is leased counts, whoever holds it: a lease that has ended may be renewed until its events are taken back.
-- A rate is a bucket: one event more in each *every*, up to what a second brings, and at least one.
-- Returns (name, how many of its events may be claimed now, in how many seconds the rate lets one begin, 0 where it does now,
-- whether one is due). Locks nothing.
-- ORDER BY and LIMIT 1: a planner that expects many events to be due reads the whole table for one.
-- Indexes: inbox_leased, inbox_due. P-CLOCK, P-FLOW.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
SELECT e.name,
       greatest(0, least(e.concurrency - held.events,
                         floor(extract(epoch FROM bucket.unspent) / extract(epoch FROM e.every))))::integer,
       greatest(0, coalesce(extract(epoch FROM e.spent_until + e.every - moment.now), 0))::float8,
       (SELECT i.available_at
        FROM {schema}.inbox i
        WHERE i.endpoint = e.name AND i.state IN ('waiting', 'retrying') AND i.available_at <= statement_timestamp()
        ORDER BY i.available_at, i.id
        LIMIT 1) IS NOT NULL
FROM moment
CROSS JOIN {schema}.endpoints e
CROSS JOIN LATERAL (
    SELECT count(*) AS events FROM {schema}.inbox i WHERE i.endpoint = e.name AND i.state = 'leased'
) held
CROSS JOIN LATERAL (
    SELECT moment.now - greatest(e.spent_until, moment.now - greatest(e.every, interval '1 second')) AS unspent
) bucket
WHERE e.name = ANY (%(endpoints)s::text[]) AND e.paused_at IS NULL AND e.limited_at IS NOT NULL
