-- Delete the bytes and headers of settled events that are older than their endpoint keeps them, oldest first: a step of a walk.
-- %(endpoints)s, %(days)s: arrays of equal length, what each keeps; an endpoint that is not named keeps everything. %(after_at)s
-- (microseconds since 1970), %(after_row)s: where the walk has come to. %(until)s: received before which to look, in the same unit; null: as
-- young as any may go. %(limit)s: how many rows to look at. %(dry_run)s: only count.
-- Nothing goes of what is waiting, leased, retrying, dead or quarantined, nor of what a person was asked to look at and has not. The row
-- of the event is locked meanwhile, as an operator locks it who has it run again; one that is locked is left to the next walk.
-- Returns (how many, how many were looked at, received_at of the last in microseconds since 1970, its row).
-- received_at is compared alone, too: of two columns together the server does not see which days are out of the question.
-- Indexes: primary keys, reviews_event. P-KEEP, P-CLOCK.
WITH policy AS MATERIALIZED (
    SELECT p.endpoint, now() - p.days * interval '1 day' AS before
    FROM unnest(%(endpoints)s::text[], %(days)s::float8[]) AS p (endpoint, days)
), looked AS MATERIALIZED (
    SELECT b.received_at, b.id
    FROM {schema}.bodies b
    WHERE (b.received_at, b.id)
          > (timestamptz 'epoch' + %(after_at)s::bigint * interval '1 microsecond', %(after_row)s::bigint)
      AND b.received_at >= timestamptz 'epoch' + %(after_at)s::bigint * interval '1 microsecond'
      AND b.received_at < least(timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond', (SELECT max(before) FROM policy))
    ORDER BY b.received_at, b.id
    LIMIT %(limit)s::integer
), doomed AS MATERIALIZED (
    SELECT looked.received_at, looked.id
    FROM looked
    JOIN {schema}.inbox i ON i.id = looked.id
    JOIN policy ON policy.endpoint = i.endpoint AND looked.received_at < policy.before
    WHERE i.state IN ('processed', 'ignored')
      AND NOT EXISTS (SELECT FROM {schema}.reviews r WHERE r.inbox_id = i.id AND r.resolved_at IS NULL)
), held AS MATERIALIZED (
    SELECT i.received_at, i.id
    FROM {schema}.inbox i
    WHERE NOT %(dry_run)s::boolean AND i.id = ANY (ARRAY(SELECT doomed.id FROM doomed)) AND i.state IN ('processed', 'ignored')
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM {schema}.bodies b
    USING held
    WHERE b.received_at = held.received_at AND b.id = held.id
    RETURNING b.id
)
SELECT CASE WHEN %(dry_run)s::boolean THEN (SELECT count(*) FROM doomed) ELSE (SELECT count(*) FROM deleted) END,
       (SELECT count(*) FROM looked), (extract(epoch FROM last.received_at) * 1000000)::bigint, last.id
FROM (SELECT 1) one
LEFT JOIN (SELECT received_at, id FROM looked ORDER BY received_at DESC, id DESC LIMIT 1) last ON true
