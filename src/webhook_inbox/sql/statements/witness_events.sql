-- Tell of every recorded event, oldest first: its key, type, state, attempts and last error, and its times as microseconds since 1970:
-- received, due, processed. For tests, which have few: it reads the whole table.
SELECT provider, endpoint, account, environment, event_id, event_type, state, origin, attempts, coalesce(last_error, ''),
       (extract(epoch FROM received_at) * 1000000)::bigint, (extract(epoch FROM available_at) * 1000000)::bigint,
       (extract(epoch FROM processed_at) * 1000000)::bigint
FROM {schema}.inbox
ORDER BY id
