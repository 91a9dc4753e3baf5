-- Put a message into the outbox, inside the handler's transaction. P-OUT.
INSERT INTO {schema}.outbox (id, aggregate_type, aggregate_id, event_type, payload, inbox_id)
VALUES (%(id)s::uuid, %(aggregate_type)s, %(aggregate_id)s, %(event_type)s, %(payload)s::jsonb, %(inbox_id)s)
RETURNING id
