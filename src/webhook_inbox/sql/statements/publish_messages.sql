-- Say that messages are published, where every destination that they were routed to has confirmed them. %(ids)s: an array; they are
-- locked by lock_messages before. Whether one is unpublished is not asked: the index of those holds all that this relay has published
-- since the oldest transaction began. One that was forgotten and written again under its id is not routed, and nobody has confirmed it.
-- Returns (id,) of each. Indexes: primary keys. P-OUT.
UPDATE {schema}.outbox o
SET published_at = coalesce(o.published_at, clock_timestamp())
WHERE o.id = ANY (%(ids)s::uuid[]) AND o.state = 'routed'
  AND NOT EXISTS (SELECT FROM {schema}.sends s WHERE s.message_id = o.id AND s.state <> 'sent')
RETURNING o.id::text
