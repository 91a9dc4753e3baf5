-- The operator's side: who did what to which event and why, who resolved a review, and how a day's bodies are dropped as a whole.
-- Transactional. A release that knows only version 3 goes on working: every new column has a default, no old one changes.

CREATE TABLE {schema}.audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT now(),
    actor     text        NOT NULL,
    action    text        NOT NULL,
    reason    text        NOT NULL DEFAULT '',
    endpoint  text        NOT NULL DEFAULT '',
    inbox_id  bigint,
    event_id  text        NOT NULL DEFAULT '',
    before    jsonb,
    after     jsonb
);

COMMENT ON TABLE {schema}.audit IS 'What operators did, written in the very transaction that did it; no payload.';

CREATE INDEX audit_event ON {schema}.audit (inbox_id, id);

ALTER TABLE {schema}.reviews
    ADD COLUMN resolved_by  text NOT NULL DEFAULT '',
    ADD COLUMN resolution   text NOT NULL DEFAULT '';

-- Drop the oldest day's partition of bodies that ends before a time; null where there is none. What must stay is an event that
-- is not settled, or that a person was asked to look at and has not, and the partial indexes know these: those few are moved to the
-- default partition, and where they are not few, the day stays. An operator who lets a settled event run again looks for its bytes under its row's lock: either that holds up
-- the lock taken here, and the event is a survivor, or it comes after the drop and finds no bytes.
CREATE FUNCTION {schema}.drop_body_partition(before timestamptz, survivors_max integer) RETURNS text LANGUAGE plpgsql
    SET search_path = {schema}, pg_temp SET DateStyle = 'ISO, YMD' SET TimeZone = 'UTC' AS $webhook_inbox$
DECLARE
    partition text;
    day timestamptz;
    survivors bigint[];
BEGIN
    FOR partition, day IN
        SELECT c.relname, to_timestamp(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'bodies'::regclass AND c.relname ~ '^bodies_\d{8}$'
          AND to_timestamp(right(c.relname, 8), 'YYYYMMDD') + interval '1 day' <= before
        ORDER BY 1
    LOOP
        LOCK TABLE bodies IN ACCESS EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass(partition) IS NULL;  -- another process was first
        SELECT array_agg(unsettled.id) INTO survivors FROM (
            SELECT id FROM inbox
            WHERE state IN ('waiting', 'leased', 'retrying') AND received_at >= day AND received_at < day + interval '1 day'
            UNION ALL
            SELECT id FROM inbox
            WHERE state IN ('dead', 'quarantined') AND received_at >= day AND received_at < day + interval '1 day'
            UNION ALL
            SELECT event.id FROM reviews JOIN inbox event ON event.id = reviews.inbox_id
            WHERE resolved_at IS NULL AND event.received_at >= day AND event.received_at < day + interval '1 day'
        ) unsettled;
        CONTINUE WHEN cardinality(survivors) > survivors_max;
        EXECUTE format('ALTER TABLE bodies DETACH PARTITION %I', partition);
        EXECUTE format('INSERT INTO bodies SELECT * FROM %I WHERE id = ANY ($1)', partition) USING survivors;
        EXECUTE format('DROP TABLE %I', partition);
        RETURN partition;
    END LOOP;
    RETURN NULL;
END $webhook_inbox$;
