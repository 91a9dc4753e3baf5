-- Record that a run failed, after its rollback, if the claim is still ours and nobody has processed the event meanwhile.
-- %(retry_in_seconds)s: from now on the server's clock. %(retry_seconds_max)s: from the first failure until it is dead.
-- %(attempts_max)s: 0 for no limit. %(costs_attempt)s: false gives the attempt back. A dead event's available_at is when it died.
-- state || '': as settle_claimed. Returns (state,), or no row. Index: primary key. P-FENCE, P-CLOCK, P-KEEP.
UPDATE {schema}.inbox i
SET state = CASE WHEN verdict.dead THEN 'dead' ELSE 'retrying' END,
    give_up_at = verdict.give_up_at,
    available_at = verdict.now + CASE WHEN verdict.dead THEN interval '0' ELSE make_interval(secs => %(retry_in_seconds)s::float8) END,
    attempts = attempts - (NOT %(costs_attempt)s::boolean)::integer,
    last_error = %(last_error)s, worker_id = NULL
FROM (
    SELECT id, now, give_up_at,
           now >= give_up_at OR %(costs_attempt)s::boolean AND %(attempts_max)s::integer > 0 AND attempts >= %(attempts_max)s::integer AS dead
    FROM (
        SELECT id, attempts, clock_timestamp() AS now,
               coalesce(give_up_at, clock_timestamp() + make_interval(secs => %(retry_seconds_max)s::float8)) AS give_up_at
        FROM {schema}.inbox
        WHERE id = %(id)s AND claims = %(token)s::integer AND worker_id = %(worker_id)s AND state || '' = 'leased' AND processed_at IS NULL
        FOR UPDATE
    ) held
) verdict
WHERE i.id = verdict.id
RETURNING i.state
