-- Find what became of the first copy of an event.
-- Returns (id, state, received_at in microseconds since 1970, body_sha256, origin, of no use), or no row.
-- Where a standby has to confirm each commit, this writes a word of its own to the log: only a transaction that has written waits
-- for the standby, and what is shown here may not be there yet. Locks nothing. Index: inbox_event_key. P-STATE, P-ACK.
SELECT id, state, (extract(epoch FROM received_at) * 1000000)::bigint, body_sha256, origin,
       (CASE WHEN current_setting('synchronous_standby_names') <> ''
             THEN pg_logical_emit_message(true, 'webhook-inbox', ''::text) END) IS NULL
FROM {schema}.inbox
WHERE provider = %(provider)s AND endpoint = %(endpoint)s AND account = %(account)s
  AND environment = %(environment)s AND event_id = %(event_id)s
