-- Record one event with its bytes, once, and commit; the bytes travel each time.
WITH event AS (
    INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
    VALUES ('stripe', 'stripe', 'evt_' || lpad(nextval('event_numbers')::text, 24, '0'), 'charge.succeeded', 'waiting',
            '\x00', length(:body))
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at
)
INSERT INTO webhooks.bodies (received_at, id, body, headers) SELECT received_at, id, :body, '{}' FROM event;
