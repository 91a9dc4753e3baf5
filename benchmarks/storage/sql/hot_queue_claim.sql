-- claim_events on the queue; what does not change is read from the event's own row.
WITH open AS MATERIALIZED (
    SELECT e.name, e.wanted, e.hold_seconds, timestamptz 'epoch' + e.due_since * interval '1 microsecond' AS due_since
    FROM unnest(%(endpoints)s::text[], %(limits)s::integer[], %(hold_seconds)s::float8[], %(due_since)s::bigint[])
         AS e (name, wanted, hold_seconds, due_since)
    WHERE NOT EXISTS (SELECT FROM webhooks.endpoints paused WHERE paused.name = e.name)
      AND EXISTS (SELECT FROM webhooks.workers w WHERE w.id = %(worker_id)s AND w.lease_ends_at > clock_timestamp())
), due AS MATERIALIZED (
    SELECT q.id
    FROM open e
    CROSS JOIN LATERAL (
        SELECT id FROM webhooks.queue event
        WHERE endpoint = e.name AND state IN ('waiting', 'retrying') AND available_at >= e.due_since AND available_at <= statement_timestamp()
          AND (order_key IS NULL OR (
              NOT EXISTS (
                  SELECT FROM webhooks.queue running
                  WHERE running.endpoint = event.endpoint AND running.order_key = event.order_key AND running.state = 'leased')
              AND NOT EXISTS (
                  SELECT FROM webhooks.queue older
                  WHERE older.endpoint = event.endpoint AND older.order_key = event.order_key AND older.id < event.id
                    AND older.state IN ('waiting', 'retrying', 'dead')
                    AND (older.state <> 'dead'
                         OR older.available_at > statement_timestamp() - make_interval(secs => e.hold_seconds)))))
        ORDER BY available_at, id
        LIMIT e.wanted
        FOR UPDATE SKIP LOCKED
    ) q
), claimed AS (
    UPDATE webhooks.queue q
    SET state = 'leased', claims = claims + 1, attempts = attempts + 1, worker_id = %(worker_id)s
    WHERE q.id = ANY (ARRAY(SELECT due.id FROM due))
    RETURNING q.*
)
SELECT c.id, c.claims, i.provider, i.endpoint, i.account, i.environment, i.event_id, i.event_type, i.origin,
       (extract(epoch FROM i.created_at) * 1000000)::bigint, (extract(epoch FROM i.received_at) * 1000000)::bigint, c.attempts, c.crashes,
       c.solitary, c.order_key, b.body, b.headers::text, (extract(epoch FROM c.available_at) * 1000000)::bigint
FROM claimed c
CROSS JOIN LATERAL (SELECT * FROM webhooks.inbox WHERE inbox.id = c.id LIMIT 1) i
LEFT JOIN LATERAL (
    SELECT bodies.body, bodies.headers FROM webhooks.bodies WHERE bodies.received_at = i.received_at AND bodies.id = c.id LIMIT 1
) b ON true
ORDER BY c.endpoint, c.available_at, c.id
