-- Record that claimed messages are not known to have arrived, where the claims are still ours.
-- Arrays of equal length: %(ids)s, %(tokens)s, %(reasons)s ('' says nothing: it was not tried), %(retry_in_seconds)s (from now on the
-- server's clock), %(permanent)s (dead at once), %(counted)s (false gives the attempt back: the message was not to blame), %(timed)s (whether
-- its time runs: it was to blame, or the destination takes others). %(retry_seconds_max)s: from the first that is timed until it is dead. %(attempts_max)s: 0 for no limit. A dead one's
-- available_at is when it died. state || '': as settle_claimed.
-- Returns (id, state, attempts, last_error). Index: primary key. P-OUT, P-FENCE, P-CLOCK, P-KEEP.
UPDATE {schema}.sends s
SET state = CASE
        WHEN given.permanent THEN 'dead'
        WHEN given.timed AND clock_timestamp() >= s.give_up_at THEN 'dead'
        WHEN given.counted AND %(attempts_max)s::integer > 0 AND s.attempts >= %(attempts_max)s::integer THEN 'dead'
        WHEN given.reason = '' AND s.last_error IS NULL THEN 'waiting'
        ELSE 'retrying' END,
    give_up_at = CASE
        WHEN given.timed THEN coalesce(s.give_up_at, clock_timestamp() + make_interval(secs => %(retry_seconds_max)s::float8))
        ELSE s.give_up_at END,
    available_at = clock_timestamp() + make_interval(secs => given.retry_in_seconds),
    attempts = s.attempts - (NOT given.counted)::integer,
    last_error = coalesce(nullif(given.reason, ''), s.last_error), worker_id = NULL
FROM unnest(%(ids)s::uuid[], %(tokens)s::integer[], %(reasons)s::text[], %(retry_in_seconds)s::float8[], %(permanent)s::boolean[],
            %(counted)s::boolean[], %(timed)s::boolean[]) AS given (id, token, reason, retry_in_seconds, permanent, counted, timed)
WHERE s.message_id = given.id AND s.destination = %(destination)s AND s.claims = given.token
  AND s.worker_id = %(worker_id)s AND s.state || '' = 'leased'
RETURNING s.message_id::text, s.state, s.attempts, s.last_error
