-- Erase what the payloads of events have left anywhere, and keep their keys, types, times, states and digests, so that a redelivery is
-- a duplicate. %(rows)s: which; lock_events has locked them. %(force)s: also those that a person has not looked at yet, or that have
-- messages to be sent, which never are then; without it these are left. One that was to run is ignored from now on.
-- %(dry_run)s: change nothing. %(actor)s, %(reason)s: for the audit, which holds nothing of what was erased.
-- Returns (id,) of each that is erased, or would be. Reads the outbox and the versions from end to end: by event, nothing there is
-- indexed. A version goes with the event that has raised it last.
-- Indexes: primary keys, attempts_event, reviews_event, audit_event. P-KEEP, P-QUIET, P-OUT.
WITH unsent AS MATERIALIZED (
    SELECT inbox_id FROM {schema}.outbox WHERE inbox_id = ANY (%(rows)s::bigint[]) AND published_at IS NULL
), held AS MATERIALIZED (
    SELECT i.id, i.received_at, i.endpoint, i.event_id, i.state, CASE WHEN i.state = 'processed' THEN i.state ELSE 'ignored' END AS after
    FROM {schema}.inbox i
    WHERE i.id = ANY (%(rows)s::bigint[])
      AND (%(force)s::boolean
           OR i.id NOT IN (SELECT inbox_id FROM unsent)
              AND NOT EXISTS (SELECT FROM {schema}.reviews r WHERE r.inbox_id = i.id AND r.resolved_at IS NULL))
), doomed AS MATERIALIZED (
    SELECT * FROM held WHERE NOT %(dry_run)s::boolean
), bodies AS (
    DELETE FROM {schema}.bodies b USING doomed WHERE b.received_at = doomed.received_at AND b.id = doomed.id
), conflicts AS (
    DELETE FROM {schema}.conflicts WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed))
), attempts AS (
    UPDATE {schema}.attempts SET error = '', traceback = '' WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed))
), reviews AS (
    UPDATE {schema}.reviews
    SET summary = 'erased', details = '{}', resolution = '', resolved_at = coalesce(resolved_at, clock_timestamp()),
        resolved_by = CASE WHEN resolved_at IS NULL THEN %(actor)s::text ELSE resolved_by END
    WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed))
), unpublished AS (
    DELETE FROM {schema}.outbox WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed)) AND published_at IS NULL
), published AS (
    UPDATE {schema}.outbox SET payload = '{}', headers = '{}', aggregate_id = ''
    WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed)) AND published_at IS NOT NULL
    RETURNING id
), sent AS (
    UPDATE {schema}.sends SET order_key = NULL, last_error = NULL WHERE message_id = ANY (ARRAY(SELECT published.id FROM published))
), versions AS (
    DELETE FROM {schema}.versions WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed))
), told AS (
    UPDATE {schema}.audit SET before = before - 'last_error', after = after - 'last_error'
    WHERE inbox_id = ANY (ARRAY(SELECT doomed.id FROM doomed))
), event AS (
    UPDATE {schema}.inbox i
    SET state = doomed.after, kept = NULL, order_key = NULL, give_up_at = NULL,
        last_error = CASE WHEN i.state NOT IN ('processed', 'ignored') THEN 'erased by ' || %(actor)s::text
                          WHEN i.last_error <> 'no handler for ' || i.event_type THEN 'erased' ELSE i.last_error END
    FROM doomed
    WHERE i.id = doomed.id
), kept AS (
    INSERT INTO {schema}.audit (actor, action, reason, endpoint, inbox_id, event_id, before, after)
    SELECT %(actor)s::text, 'erase', %(reason)s::text, endpoint, id, event_id,
           jsonb_build_object('state', state), jsonb_build_object('state', after)
    FROM doomed
    ORDER BY id
)
SELECT id FROM held
