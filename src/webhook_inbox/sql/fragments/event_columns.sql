-- What an operator is shown of row event of inbox; times as microseconds since 1970. The last one is the worker that holds it.
event.id, event.provider, event.endpoint, event.account, event.environment, event.event_id, event.event_type, event.state, event.origin,
(extract(epoch FROM event.created_at) * 1000000)::bigint, (extract(epoch FROM event.received_at) * 1000000)::bigint,
(extract(epoch FROM event.available_at) * 1000000)::bigint, (extract(epoch FROM event.processed_at) * 1000000)::bigint,
(extract(epoch FROM event.give_up_at) * 1000000)::bigint, event.attempts, event.crashes, event.order_key, event.secret_label,
event.body_bytes, encode(event.body_sha256, 'hex'), event.last_error,
CASE WHEN event.state = 'leased' THEN (SELECT w.name FROM {schema}.workers w WHERE w.id = event.worker_id) END
