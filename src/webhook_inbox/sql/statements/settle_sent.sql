-- Mark claimed messages as sent to %(destination)s, which has confirmed them. %(ids)s, %(tokens)s: arrays of equal length.
-- No row comes back for one whose claim is no longer ours: somebody else sends it, too. state || '': as settle_claimed.
-- Returns (id,) of each that is marked. Index: primary key. P-OUT, P-FENCE.
UPDATE {schema}.sends s
SET state = 'sent', sent_at = clock_timestamp(), worker_id = NULL, last_error = NULL
FROM unnest(%(ids)s::uuid[], %(tokens)s::integer[]) AS given (id, token)
WHERE s.message_id = given.id AND s.destination = %(destination)s AND s.claims = given.token
  AND s.worker_id = %(worker_id)s AND s.state || '' = 'leased'
RETURNING s.message_id::text
