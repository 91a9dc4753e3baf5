-- Claim due events, oldest due first, a bounded number per endpoint; rows that another session holds are skipped, not waited for.
-- %(endpoints)s, %(limits)s, %(hold_seconds)s (how long a dead head holds its key): arrays of equal length. Claim count (the fencing token) and attempt are raised here, and committed before any
-- work begins. Only the head of an order key is claimable, and only where nothing of that key is leased or holds it dead.
-- Returns everything a run needs, in order of (endpoint, available_at, id). Index: inbox_due. P-COUNT, P-FENCE, P-FLOW, P-CLOCK.
WITH due AS (
    SELECT e.name, i.id
    FROM unnest(%(endpoints)s::text[], %(limits)s::integer[], %(hold_seconds)s::float8[]) AS e (name, wanted, hold_seconds)
    CROSS JOIN LATERAL (
        SELECT id FROM {schema}.inbox inbox
        WHERE endpoint = e.name AND state IN ('waiting', 'retrying') AND available_at <= clock_timestamp()
          AND (order_key IS NULL OR NOT EXISTS (
              SELECT FROM {schema}.inbox other
              WHERE other.endpoint = inbox.endpoint AND other.order_key = inbox.order_key AND other.id <> inbox.id
                AND (other.state = 'leased'
                     OR other.id < inbox.id AND (other.state IN ('waiting', 'retrying') OR other.state = 'dead' AND other.available_at > clock_timestamp() - make_interval(secs => e.hold_seconds)))))
        ORDER BY available_at, id
        LIMIT e.wanted
        FOR UPDATE SKIP LOCKED
    ) i
    WHERE NOT EXISTS (SELECT FROM {schema}.endpoints p WHERE p.name = e.name)
), claimed AS (
    UPDATE {schema}.inbox i
    SET state = 'leased', claims = claims + 1, attempts = attempts + 1, worker_id = %(worker_id)s
    FROM due WHERE i.id = due.id
    RETURNING i.*
)
SELECT c.id, c.claims, c.provider, c.endpoint, c.account, c.environment, c.event_id, c.event_type, c.origin, c.created_at,
       c.received_at, c.attempts, c.crashes, c.solitary, c.order_key, b.body, b.headers
FROM claimed c
LEFT JOIN {schema}.bodies b ON b.received_at = c.received_at AND b.id = c.id
ORDER BY c.endpoint, c.available_at, c.id
