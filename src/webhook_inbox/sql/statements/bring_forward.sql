-- Have everything that is to happen at some time happen %(seconds)s earlier: the next attempt of an event or of a send, the end of its
-- retries, the end of a dead event's hold. For tests, in place of a clock that can be set: now() goes on as ever. Returns the number of
-- events that are due then.
WITH events AS (
    UPDATE {schema}.inbox
    SET available_at = available_at - make_interval(secs => %(seconds)s::float8),
        give_up_at = give_up_at - make_interval(secs => %(seconds)s::float8)
    WHERE state IN ('waiting', 'leased', 'retrying', 'dead')
    RETURNING state, available_at
), sends AS (
    UPDATE {schema}.sends
    SET available_at = available_at - make_interval(secs => %(seconds)s::float8),
        give_up_at = give_up_at - make_interval(secs => %(seconds)s::float8)
    WHERE state IN ('waiting', 'leased', 'retrying', 'dead')
)
SELECT count(*) FILTER (WHERE state IN ('waiting', 'retrying') AND available_at <= clock_timestamp()) FROM events
