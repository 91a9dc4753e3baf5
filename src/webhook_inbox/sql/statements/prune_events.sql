-- Forget settled events that are older than their endpoint keeps their keys, oldest first, with their runs, resolved reviews, evidence
-- and whatever bytes are left: a step of a walk. From then on a redelivery is a new event.
-- %(endpoints)s, %(days)s, %(until)s, %(limit)s, %(dry_run)s: as prune_bodies. %(after_row)s: where the walk has come to.
-- What was processed late, as a dead event is that somebody had run again, is kept as long from then on: its effect is as young.
-- Nothing goes of what is waiting, leased, retrying, dead or quarantined, nor of what a person was asked to look at and has not.
-- Returns (how many, how many were looked at that were received before then, the last row looked at).
-- Indexes: primary keys, attempts_event, reviews_event. P-KEEP, P-CLOCK.
WITH policy AS MATERIALIZED (
    SELECT p.endpoint, now() - p.days * interval '1 day' AS before
    FROM unnest(%(endpoints)s::text[], %(days)s::float8[]) AS p (endpoint, days)
), looked AS MATERIALIZED (
    SELECT i.id, i.endpoint, i.state, i.received_at, i.processed_at
    FROM {schema}.inbox i
    WHERE i.id > %(after_row)s::bigint
    ORDER BY i.id
    LIMIT %(limit)s::integer
), doomed AS MATERIALIZED (
    SELECT looked.id
    FROM looked
    JOIN policy ON policy.endpoint = looked.endpoint AND greatest(looked.received_at, looked.processed_at) < policy.before
    WHERE looked.state IN ('processed', 'ignored')
      AND NOT EXISTS (SELECT FROM {schema}.reviews r WHERE r.inbox_id = looked.id AND r.resolved_at IS NULL)
), held AS MATERIALIZED (
    SELECT i.id, i.received_at
    FROM {schema}.inbox i
    WHERE NOT %(dry_run)s::boolean AND i.id = ANY (ARRAY(SELECT doomed.id FROM doomed)) AND i.state IN ('processed', 'ignored')
      AND (i.processed_at IS NULL OR i.processed_at < (SELECT max(before) FROM policy))
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
), bodies AS (
    DELETE FROM {schema}.bodies b USING held WHERE b.received_at = held.received_at AND b.id = held.id
), attempts AS (
    DELETE FROM {schema}.attempts WHERE inbox_id = ANY (ARRAY(SELECT held.id FROM held))
), reviews AS (
    DELETE FROM {schema}.reviews WHERE inbox_id = ANY (ARRAY(SELECT held.id FROM held))
), conflicts AS (
    DELETE FROM {schema}.conflicts WHERE inbox_id = ANY (ARRAY(SELECT held.id FROM held))
), deleted AS (
    DELETE FROM {schema}.inbox WHERE id = ANY (ARRAY(SELECT held.id FROM held)) RETURNING id
)
SELECT CASE WHEN %(dry_run)s::boolean THEN (SELECT count(*) FROM doomed) ELSE (SELECT count(*) FROM deleted) END,
       (SELECT count(*) FROM looked
        WHERE received_at < least(timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond', (SELECT max(before) FROM policy))),
       (SELECT max(id) FROM looked)
