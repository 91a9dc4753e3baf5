-- Have messages sent that are dead, or routed that no route named, as an operator wishes, and keep who did it. Filters as list_messages;
-- those that are retrying are sent at once where that state, or one message, is asked for.
-- %(actor)s, %(reason)s: for the audit, where each stands beside the event that caused the message, if one did.
-- Returns (id, destination, what it was). Locks the rows, in order of id: whoever comes second finds another state, and changes nothing.
-- Indexes: sends_dead, outbox_unrouted. P-OUT, P-KEEP.
WITH unsent AS MATERIALIZED (
    SELECT s.message_id, s.destination, s.state, s.attempts, s.last_error, o.inbox_id
    FROM {schema}.sends s
    JOIN {schema}.outbox o ON o.id = s.message_id
    WHERE (s.state = 'dead' AND %(state)s::text IN ('', 'dead')
           OR s.state = 'retrying' AND (%(state)s::text = 'retrying' OR %(state)s::text = '' AND %(message_id)s::text <> ''))
      AND (%(destination)s::text = '' OR s.destination = %(destination)s::text)
      AND (%(event_type)s::text = '' OR o.event_type LIKE %(event_type)s::text)
      AND (%(message_id)s::text = '' OR o.id = nullif(%(message_id)s::text, '')::uuid)
    ORDER BY s.message_id, s.destination
    FOR UPDATE OF s
), unrouted AS MATERIALIZED (
    SELECT o.id AS message_id, o.destination, o.state, 0 AS attempts, NULL::text AS last_error, o.inbox_id
    FROM {schema}.outbox o
    WHERE o.state = 'unrouted' AND %(state)s::text IN ('', 'unrouted')
      AND (%(destination)s::text = '' OR o.destination = %(destination)s::text)
      AND (%(event_type)s::text = '' OR o.event_type LIKE %(event_type)s::text)
      AND (%(message_id)s::text = '' OR o.id = nullif(%(message_id)s::text, '')::uuid)
    ORDER BY o.id
    FOR UPDATE
), sent AS (
    UPDATE {schema}.sends s
    SET state = 'retrying', available_at = clock_timestamp(), give_up_at = NULL, attempts = 0
    FROM unsent
    WHERE s.message_id = unsent.message_id AND s.destination = unsent.destination
), routed AS (
    UPDATE {schema}.outbox o SET state = 'waiting' FROM unrouted WHERE o.id = unrouted.message_id
), changed AS (
    SELECT *, 'retrying' AS state_after FROM unsent
    UNION ALL
    SELECT *, 'waiting' FROM unrouted
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, inbox_id, event_id, before, after)
    SELECT %(actor)s::text, 'outbox retry', %(reason)s::text, coalesce(i.endpoint, ''), c.inbox_id, coalesce(i.event_id, ''),
           jsonb_build_object('message', c.message_id, 'destination', c.destination, 'state', c.state, 'attempts', c.attempts,
                              'last_error', c.last_error),
           jsonb_build_object('message', c.message_id, 'destination', c.destination, 'state', c.state_after, 'attempts', 0,
                              'last_error', c.last_error)
    FROM changed c
    LEFT JOIN {schema}.inbox i ON i.id = c.inbox_id
    ORDER BY c.message_id, c.destination
)
SELECT message_id::text, destination, state FROM changed
ORDER BY 3, 1, 2
