-- Put a message into the outbox, inside the transaction that it tells of. A second one of the same id is the same message.
-- %(destination)s: '' for wherever its type is routed to. Returns nothing of use. P-OUT.
INSERT INTO {schema}.outbox (id, aggregate_type, aggregate_id, event_type, payload, inbox_id, destination, headers)
VALUES (%(id)s::uuid, %(aggregate_type)s, %(aggregate_id)s, %(event_type)s, %(payload)s::jsonb, %(inbox_id)s, %(destination)s, %(headers)s::jsonb)
ON CONFLICT (id) DO NOTHING
RETURNING id
