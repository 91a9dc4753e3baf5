INSERT INTO webhooks.bytes_alone (id, body) SELECT webhooks.next_event_id(), given.body FROM unnest(%(body)s::bytea[]) AS given (body)
