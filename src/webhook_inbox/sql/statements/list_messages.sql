-- List messages and what came of them, newest first: a row for each destination, and one for a message that is not routed.
-- %(state)s: of the send, or 'unrouted'; 'waiting' finds what is not routed yet, too. %(destination)s, %(event_type)s (of LIKE),
-- %(message_id)s (a text): '' for any. Changes nothing.
-- Returns (id, destination, event_type, aggregate_type, aggregate_id, state, attempts, available_at, created_at, sent_at,
-- published_at, last_error), times as microseconds since 1970; created_at as claim_messages. Index: primary keys.
SELECT o.id::text, coalesce(s.destination, o.destination), o.event_type, o.aggregate_type, o.aggregate_id, coalesce(s.state, o.state),
       coalesce(s.attempts, 0), (extract(epoch FROM s.available_at) * 1000000)::bigint,
       (extract(epoch FROM greatest('0001-01-02Z', least('9999-12-30Z', o.created_at))) * 1000000)::bigint, (extract(epoch FROM s.sent_at) * 1000000)::bigint,
       (extract(epoch FROM o.published_at) * 1000000)::bigint, s.last_error
FROM {schema}.outbox o
LEFT JOIN {schema}.sends s ON s.message_id = o.id
WHERE (%(state)s::text = '' OR coalesce(s.state, o.state) = %(state)s::text)
  AND (%(destination)s::text = '' OR coalesce(s.destination, o.destination) = %(destination)s::text)
  AND (%(event_type)s::text = '' OR o.event_type LIKE %(event_type)s::text)
  AND (%(message_id)s::text = '' OR o.id = nullif(%(message_id)s::text, '')::uuid)
ORDER BY o.position DESC, s.destination
LIMIT %(limit)s::integer
