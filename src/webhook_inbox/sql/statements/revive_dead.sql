-- Let a dead event run again because its provider sent it again, where the endpoint says so. Returns (id,), or no row.
-- Index: inbox_event_key. P-STATE.
UPDATE {schema}.inbox
SET state = 'retrying', available_at = clock_timestamp(), give_up_at = NULL, crashes = 0, last_error = 'revived by a redelivery'
WHERE provider = %(provider)s AND endpoint = %(endpoint)s AND account = %(account)s
  AND environment = %(environment)s AND event_id = %(event_id)s AND state = 'dead'
RETURNING id
