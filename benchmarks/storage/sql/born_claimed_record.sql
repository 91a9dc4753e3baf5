-- record_events, but every event is born claimed, its first attempt counted, as record_leased does for one.
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), lease AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM webhooks.workers WHERE id = %(worker_id)s::bigint AND lease_ends_at > clock_timestamp()) AS held
), given AS MATERIALIZED (
    SELECT given.* FROM wait, unnest(
        %(provider)s::text[], %(endpoint)s::text[], %(account)s::text[], %(environment)s::text[], %(event_id)s::text[],
        %(event_type)s::text[], %(origin)s::text[], %(created_at)s::timestamptz[], %(secret_label)s::text[],
        %(body_sha256)s::bytea[], %(body_bytes)s::integer[], %(kept)s::text[], %(last_error)s::text[], %(order_key)s::text[],
        %(body)s::bytea[], %(headers)s::text[]
    ) WITH ORDINALITY AS given (provider, endpoint, account, environment, event_id, event_type, origin, created_at, secret_label,
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
         body_sha256, body_bytes, kept, last_error, order_key, attempts, claims, worker_id)
    OVERRIDING SYSTEM VALUE
    SELECT id, provider, endpoint, account, environment, event_id, event_type, CASE WHEN lease.held THEN 'leased' ELSE 'waiting' END,
           origin, created_at, secret_label, body_sha256, body_bytes, kept::jsonb, last_error, order_key,
           lease.held::integer, lease.held::integer, CASE WHEN lease.held THEN %(worker_id)s::bigint END
    FROM numbered, lease
    ORDER BY provider, endpoint, account, environment, event_id
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at, provider, endpoint, account, environment, event_id
), stored AS (
    INSERT INTO webhooks.bodies (received_at, id, body, headers)
    SELECT event.received_at, event.id, given.body, given.headers::jsonb
    FROM event JOIN given USING (provider, endpoint, account, environment, event_id)
)
SELECT id FROM event
