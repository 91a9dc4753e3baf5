-- Tell of every outbox message, in the order in which they were written: its id, type, payload and headers as JSON text, aggregate, the
-- destination that it names (empty: none), the id of the event that it came from (empty: of none), and when it was published, in
-- microseconds since 1970. For tests, which have few: it reads the whole table.
SELECT o.id::text, o.event_type, o.payload::text, o.headers::text, o.aggregate_type, o.aggregate_id, o.destination,
       coalesce(i.event_id, ''), (extract(epoch FROM o.published_at) * 1000000)::bigint
FROM {schema}.outbox o LEFT JOIN {schema}.inbox i ON i.id = o.inbox_id
ORDER BY o.position
