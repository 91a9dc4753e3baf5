-- Record that an older receiver has processed some events, whose bytes are not here; one that is here already stays as it is.
-- %(provider)s, %(endpoint)s; arrays of equal length, sorted by key: %(accounts)s, %(environments)s, %(event_ids)s, %(event_types)s,
-- %(processed_at)s (timestamptz, or null for now). %(actor)s, %(reason)s: for the audit, one row a call.
-- Returns (how many were recorded,): what the key has let in, whatever a rival records meanwhile.
-- Waits for a rival that holds one of the keys, up to lock_timeout (then 55P03). Index: inbox_event_key. P-DUP, P-CLOCK.
WITH event AS (
    INSERT INTO {schema}.inbox (provider, endpoint, account, environment, event_id, event_type, state, origin, processed_at,
                                body_sha256, body_bytes)
    SELECT %(provider)s, %(endpoint)s, account, environment, event_id, event_type, 'processed', 'import',
           least(coalesce(processed_at, now()), now()), '', 0
    FROM unnest(%(accounts)s::text[], %(environments)s::text[], %(event_ids)s::text[], %(event_types)s::text[],
                %(processed_at)s::timestamptz[])
         WITH ORDINALITY AS given (account, environment, event_id, event_type, processed_at, position)
    ORDER BY position
    ON CONFLICT (provider, endpoint, account, environment, event_id) DO NOTHING
    RETURNING id
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, after)
    SELECT %(actor)s::text, 'import', %(reason)s::text, %(endpoint)s, jsonb_build_object('events', count(*))
    FROM event
    HAVING count(*) > 0
)
SELECT count(*) FROM event
