-- Find what became of the first copy of an event.
-- Returns (id, state, received_at, body_sha256), or no row. Locks nothing. Index: inbox_event_key. P-STATE.
SELECT id, state, received_at, body_sha256
FROM {schema}.inbox
WHERE provider = %(provider)s AND endpoint = %(endpoint)s AND account = %(account)s
  AND environment = %(environment)s AND event_id = %(event_id)s
