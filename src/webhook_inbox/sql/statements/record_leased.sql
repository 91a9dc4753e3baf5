-- Record an event that this process will run at once: born claimed, its first attempt counted (P-COUNT), its token 1.
-- Born waiting where that process's lease has ended, whatever its own clock says; or the endpoint is paused or limited: a worker runs it.
-- Otherwise as record_event; returns (id, received_at, whether it is claimed), or no row where the key is taken. A first copy that is committed is found by
-- a plain read before: ON CONFLICT would wait for whoever is running it. Index: inbox_event_key. P-DUP, P-RAW, P-STATE, P-FLOW.
WITH wait AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(wait_ms)s::bigint || 'ms', true)
), lease AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM {schema}.workers WHERE id = %(worker_id)s::bigint AND lease_ends_at > clock_timestamp())
           AND NOT EXISTS (SELECT FROM {schema}.endpoints WHERE name = %(endpoint)s) AS held
), event AS (
    INSERT INTO {schema}.inbox
        (provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label,
         body_sha256, body_bytes, kept, attempts, claims, worker_id)
    SELECT
        %(provider)s, %(endpoint)s, %(account)s, %(environment)s, %(event_id)s, %(event_type)s,
        CASE WHEN lease.held THEN 'leased' ELSE 'waiting' END, %(origin)s,
        %(created_at)s::timestamptz, %(secret_label)s, %(body_sha256)s::bytea, %(body_bytes)s::integer, %(kept)s::jsonb,
        lease.held::integer, lease.held::integer, CASE WHEN lease.held THEN %(worker_id)s::bigint END
    FROM wait, lease
    WHERE (SELECT first.id FROM {schema}.inbox first
           WHERE first.provider = %(provider)s AND first.endpoint = %(endpoint)s AND first.account = %(account)s
             AND first.environment = %(environment)s AND first.event_id = %(event_id)s) IS NULL
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id, received_at
), stored AS (
    INSERT INTO {schema}.bodies (received_at, id, body, headers)
    SELECT received_at, id, %(body)s::bytea, %(headers)s::jsonb FROM event
)
SELECT event.id, (extract(epoch FROM event.received_at) * 1000000)::bigint, lease.held FROM event, lease
