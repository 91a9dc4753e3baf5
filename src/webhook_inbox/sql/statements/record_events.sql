-- Record many events and their bytes in one statement: group commit. Rows go in sorted by key, so that two recorders cannot deadlock;
-- their ids are drawn in order of arrival, which is the order that order_key keeps.
-- Parameters are arrays of equal length, one element per event; no key occurs twice.
-- Returns (provider, endpoint, account, environment, event_id) of each row that is new; the others are duplicates. Order is not promised.
-- Waits up to wait_ms for a rival that holds one of the keys (then 55P03). A first copy that is committed is found by a plain read
-- before: ON CONFLICT would wait for the worker that is running it. Index: inbox_event_key. P-DUP, P-RAW, P-STATE, P-FLOW.
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
    SELECT {schema}.next_event_id() AS id, arrived.*
    FROM (
        SELECT given.* FROM given
        WHERE (SELECT first.id FROM {schema}.inbox first
               WHERE first.provider = given.provider AND first.endpoint = given.endpoint AND first.account = given.account
                 AND first.environment = given.environment AND first.event_id = given.event_id) IS NULL
        ORDER BY position
    ) arrived
), event AS (
    INSERT INTO {schema}.inbox
        (id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
         body_sha256, body_bytes, kept, last_error, order_key)
    OVERRIDING SYSTEM VALUE
    SELECT id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
           body_sha256, body_bytes, kept::jsonb, last_error, order_key
    FROM numbered
    ORDER BY provider, endpoint, account, environment, event_id
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at, provider, endpoint, account, environment, event_id
), stored AS (
    INSERT INTO {schema}.bodies (received_at, id, body, headers)
    SELECT event.received_at, event.id, given.body, given.headers::jsonb
    FROM event JOIN given USING (provider, endpoint, account, environment, event_id)
)
SELECT provider, endpoint, account, environment, event_id FROM event
