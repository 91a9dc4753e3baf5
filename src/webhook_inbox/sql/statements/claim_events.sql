-- Claim due events, oldest due first, a bounded number per endpoint; rows that another session holds are skipped, not waited for.
-- %(endpoints)s, %(limits)s, %(hold_seconds)s (how long a dead head holds its key), %(due_since)s (microseconds since 1970; what was
-- due before is left alone, so that the walk need not begin at what was settled long ago), %(solitary)s (whether also those that run
-- alone): arrays of equal length. Claim count (the fencing token) and attempt are raised here, and committed before any work begins. Only the head of an order key is claimable,
-- and only where nothing of that key is leased or holds it dead.
-- %(limited)s: whether these are endpoints with a limit, that the claimer has locked and keeps to; else whatever is paused or limited is
-- passed by.
-- Nobody claims under a lease that has ended, whatever the claimer's own clock says: it may have been suspended.
-- statement_timestamp(): the index ends the search at what is due, which it cannot with clock_timestamp(), a volatile function.
-- ANY (ARRAY) and LIMIT 1: nobody knows beforehand how few rows a claim takes, and a planner that expects many reads whole tables.
-- Returns everything a run needs, times as microseconds since 1970 and JSON as text (what a connection makes of either is its owner's),
-- in order of (endpoint, available_at, id).
-- Indexes: inbox_due, inbox_order, inbox_order_leased. P-COUNT, P-FENCE, P-FLOW, P-CLOCK.
WITH open AS MATERIALIZED (
    SELECT e.name, e.wanted, e.hold_seconds, timestamptz 'epoch' + e.due_since * interval '1 microsecond' AS due_since, e.solitary
    FROM unnest(%(endpoints)s::text[], %(limits)s::integer[], %(hold_seconds)s::float8[], %(due_since)s::bigint[], %(solitary)s::boolean[])
         AS e (name, wanted, hold_seconds, due_since, solitary)
    WHERE NOT EXISTS (
              SELECT FROM {schema}.endpoints held
              WHERE held.name = e.name AND (held.paused_at IS NOT NULL OR NOT %(limited)s::boolean))
      AND EXISTS (SELECT FROM {schema}.workers w WHERE w.id = %(worker_id)s AND w.lease_ends_at > clock_timestamp())
), due AS MATERIALIZED (
    SELECT i.id
    FROM open e
    CROSS JOIN LATERAL (
        SELECT id FROM {schema}.inbox event
        WHERE endpoint = e.name AND state IN ('waiting', 'retrying') AND available_at >= e.due_since AND available_at <= statement_timestamp()
          AND (e.solitary OR NOT event.solitary)
          AND (order_key IS NULL OR (
              NOT EXISTS (
                  SELECT FROM {schema}.inbox running
                  WHERE running.endpoint = event.endpoint AND running.order_key = event.order_key AND running.state = 'leased')
              AND NOT EXISTS (
                  SELECT FROM {schema}.inbox older
                  WHERE older.endpoint = event.endpoint AND older.order_key = event.order_key AND older.id < event.id
                    AND older.state IN ('waiting', 'retrying', 'dead')
                    AND (older.state <> 'dead'
                         OR older.available_at > statement_timestamp() - make_interval(secs => e.hold_seconds)))))
        ORDER BY available_at, id
        LIMIT e.wanted
        FOR UPDATE SKIP LOCKED
    ) i
), claimed AS (
    UPDATE {schema}.inbox i
    SET state = 'leased', claims = claims + 1, attempts = attempts + 1, worker_id = %(worker_id)s
    WHERE i.id = ANY (ARRAY(SELECT due.id FROM due))
    RETURNING i.*
)
SELECT c.id, c.claims, c.provider, c.endpoint, c.account, c.environment, c.event_id, c.event_type, c.origin,
       (extract(epoch FROM c.created_at) * 1000000)::bigint, (extract(epoch FROM c.received_at) * 1000000)::bigint, c.attempts, c.crashes,
       c.solitary, c.order_key, b.body, b.headers::text, (extract(epoch FROM c.available_at) * 1000000)::bigint
FROM claimed c
LEFT JOIN LATERAL (
    SELECT bodies.body, bodies.headers FROM {schema}.bodies WHERE bodies.received_at = c.received_at AND bodies.id = c.id LIMIT 1
) b ON true
ORDER BY c.endpoint, c.available_at, c.id
