-- Have events run again, or never, as an operator says, and keep who did it. %(rows)s: which; lock_events has locked them. A waiting one
-- that is to run again stays waiting. %(to_state)s: in which they are then. %(with_body)s: whether only those whose bytes are kept.
-- %(origin)s: '' leaves it. %(last_error)s: '' leaves it. %(first_due_seconds)s, %(every_seconds)s: when the first is due from now on,
-- and how long after it the next. %(actor)s, %(action)s, %(reason)s: for the audit. Retrying begins anew; attempts and the fencing
-- token go on. Returns (id,) of each that was changed. Index: primary key. P-FENCE, P-KEEP, P-CLOCK.
WITH held AS MATERIALIZED (
    SELECT i.id, i.state, i.attempts, i.available_at, i.origin, i.last_error, row_number() OVER (ORDER BY i.id) - 1 AS position
    FROM {schema}.inbox i
    WHERE i.id = ANY (%(rows)s::bigint[])
      AND (NOT %(with_body)s::boolean
           OR EXISTS (SELECT FROM {schema}.bodies b WHERE b.received_at = i.received_at AND b.id = i.id))
), changed AS (
    UPDATE {schema}.inbox i
    SET state = CASE WHEN held.state = 'waiting' AND %(to_state)s::text = 'retrying' THEN 'waiting' ELSE %(to_state)s::text END,
        available_at = clock_timestamp()
                       + make_interval(secs => %(first_due_seconds)s::float8 + held.position * %(every_seconds)s::float8),
        give_up_at = NULL, crashes = 0, processed_at = NULL, effect_transaction = NULL, worker_id = NULL,
        origin = coalesce(nullif(%(origin)s::text, ''), i.origin),
        last_error = coalesce(nullif(%(last_error)s::text, ''), i.last_error)
    FROM held
    WHERE i.id = held.id
    RETURNING i.id, i.endpoint, i.event_id, i.state, i.attempts, i.available_at, i.origin, i.last_error
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, inbox_id, event_id, before, after)
    SELECT %(actor)s::text, %(action)s::text, %(reason)s::text, c.endpoint, c.id, c.event_id,
           jsonb_build_object('state', held.state, 'attempts', held.attempts, 'available_at', held.available_at,
                              'origin', held.origin, 'last_error', held.last_error),
           jsonb_build_object('state', c.state, 'attempts', c.attempts, 'available_at', c.available_at,
                              'origin', c.origin, 'last_error', c.last_error)
    FROM changed c JOIN held ON held.id = c.id
    ORDER BY c.id
)
SELECT id FROM changed
