-- Find what became of the first copy of an event.
-- Returns (id, state, received_at in microseconds since 1970, body_sha256, origin), or no row.
-- Locks nothing. Index: inbox_event_key. P-STATE.
SELECT id, state, (extract(epoch FROM received_at) * 1000000)::bigint, body_sha256, origin
FROM {schema}.inbox
WHERE provider = %(provider)s AND endpoint = %(endpoint)s AND account = %(account)s
  AND environment = %(environment)s AND event_id = %(event_id)s
