-- record_events with one row more: the event's place in the queue.
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), given AS MATERIALIZED (
    SELECT given.* FROM wait, unnest(
        %(provider)s::text[], %(endpoint)s::text[], %(account)s::text[], %(environment)s::text[], %(event_id)s::text[],
        %(event_type)s::text[], %(state)s::text[], %(origin)s::text[], %(created_at)s::timestamptz[], %(secret_label)s::text[],
        %(body_sha256)s::bytea[], %(body_bytes)s::integer[], %(kept)s::text[], %(last_error)s::text[], %(order_key)s::text[],
        %(body)s::bytea[], %(headers)s::text[]
    ) WITH ORDINALITY AS given (provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
                body_sha256, body_bytes, kept, last_error, order_key, body, headers, position)
), numbered AS MATERIALIZED (
    SELECT webhooks.next_event_id() AS id, arrived.*
    FROM (
        SELECT given.* FROM given
        WHERE (SELECT first.id FROM webhooks.inbox first
               WHERE first.provider = given.provider AND first.endpoint = given.endpoint AND first.account = given.account
                 AND first.environment = given.environment AND first.event_id = given.event_id) IS NULL
        ORDER BY position
    ) arrived
), event AS (
    INSERT INTO webhooks.inbox
        (id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
         body_sha256, body_bytes, kept, last_error)
    OVERRIDING SYSTEM VALUE
    SELECT id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
           body_sha256, body_bytes, kept::jsonb, last_error
    FROM numbered
    ORDER BY provider, endpoint, account, environment, event_id
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at, provider, endpoint, account, environment, event_id
), queued AS (
    INSERT INTO webhooks.queue (id, endpoint, state, order_key)
    SELECT event.id, event.endpoint, given.state, given.order_key
    FROM event JOIN given USING (provider, endpoint, account, environment, event_id)
), stored AS (
    INSERT INTO webhooks.bodies (received_at, id, body, headers)
    SELECT event.received_at, event.id, given.body, given.headers::jsonb
    FROM event JOIN given USING (provider, endpoint, account, environment, event_id)
)
SELECT id FROM event
