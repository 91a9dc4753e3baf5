-- Ask a person to look at an event, inside the handler's transaction.
INSERT INTO {schema}.reviews (inbox_id, endpoint, event_id, summary, details)
VALUES (%(inbox_id)s, %(endpoint)s, %(event_id)s, %(summary)s, %(details)s::jsonb)
RETURNING id
