-- The receive side: events, their bodies, what a handler leaves behind, and the view that operators read.
-- Transactional. Serves every release from the first on.

CREATE TABLE {schema}.inbox (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider          text        NOT NULL,
    endpoint          text        NOT NULL,
    account           text        NOT NULL DEFAULT '',
    environment       text        NOT NULL DEFAULT '',
    event_id          text        NOT NULL,
    event_type        text        NOT NULL,
    state             text        NOT NULL,
    origin            text        NOT NULL DEFAULT 'delivery',
    created_at        timestamptz,
    received_at       timestamptz NOT NULL DEFAULT now(),
    available_at      timestamptz NOT NULL DEFAULT now(),
    processed_at      timestamptz,
    attempts          integer     NOT NULL DEFAULT 0,
    secret_label      text        NOT NULL DEFAULT '',
    body_sha256       bytea       NOT NULL,
    body_bytes        integer     NOT NULL,
    kept              jsonb,
    last_error        text,
    effect_transaction xid8,
    CONSTRAINT inbox_event_key UNIQUE (provider, endpoint, account, environment, event_id),
    CONSTRAINT inbox_state CHECK (state IN ('waiting', 'leased', 'retrying', 'processed', 'ignored', 'dead', 'quarantined')),
    CONSTRAINT inbox_origin CHECK (origin IN ('delivery', 'reconcile', 'replay')),
    CONSTRAINT inbox_processed CHECK ((state = 'processed') = (processed_at IS NOT NULL))
) WITH (fillfactor = 85);

COMMENT ON TABLE {schema}.inbox IS 'One row per event, whatever it came to; the narrow part that changes.';
COMMENT ON CONSTRAINT inbox_event_key ON {schema}.inbox IS 'The only thing that makes a delivery a duplicate.';
COMMENT ON COLUMN {schema}.inbox.received_at IS 'When the first copy was recorded; server clock.';
COMMENT ON COLUMN {schema}.inbox.created_at IS 'When the provider says it happened.';
COMMENT ON COLUMN {schema}.inbox.kept IS 'The fields of the payload that an endpoint with keep="digest" was told to keep.';
COMMENT ON COLUMN {schema}.inbox.effect_transaction IS 'The transaction that committed the effect together with the mark; null where a handler has written nothing.';

CREATE INDEX inbox_unfinished ON {schema}.inbox (available_at, id) WHERE state IN ('waiting', 'leased', 'retrying');
CREATE INDEX inbox_attention ON {schema}.inbox (state, received_at) WHERE state IN ('dead', 'quarantined');

-- A handler that commits the transaction it was given would commit a part of its effect, with the mark. The server itself refuses
-- that COMMIT, on every driver and however it is spelled: what is marked commits only in a transaction that was sealed.
CREATE FUNCTION {schema}.refuse_unsealed_effect() RETURNS trigger LANGUAGE plpgsql AS $webhook_inbox$
BEGIN
    IF current_setting('webhook_inbox.sealed', true) IS DISTINCT FROM NEW.effect_transaction::text THEN
        RAISE EXCEPTION 'the handler of event % is still at work: it must not commit the transaction it was given', NEW.id
            USING ERRCODE = 'WI001', HINT = 'Leave COMMIT to webhook-inbox; use a savepoint for a part that may be undone.';
    END IF;
    RETURN NULL;
END $webhook_inbox$;

CREATE CONSTRAINT TRIGGER refuse_unsealed_effect AFTER INSERT OR UPDATE OF effect_transaction ON {schema}.inbox
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.effect_transaction IS NOT NULL) EXECUTE FUNCTION {schema}.refuse_unsealed_effect();

CREATE TABLE {schema}.bodies (
    received_at  timestamptz NOT NULL,
    id           bigint      NOT NULL,
    body         bytea       NOT NULL,
    headers      jsonb       NOT NULL,
    PRIMARY KEY (received_at, id)
) PARTITION BY RANGE (received_at);

COMMENT ON TABLE {schema}.bodies IS 'The exact bytes of each event, apart from its state, by day; joined to inbox on (received_at, id).';

-- lz4 where the server has it; else out of line and uncompressed: pglz costs more time than the disk it saves is worth.
-- A partition copies what its parent says when it is made.
DO $webhook_inbox$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE {schema}.bodies ALTER COLUMN body SET COMPRESSION lz4;
    ELSE
        ALTER TABLE {schema}.bodies ALTER COLUMN body SET STORAGE EXTERNAL;
    END IF;
END $webhook_inbox$;

CREATE TABLE {schema}.bodies_default PARTITION OF {schema}.bodies DEFAULT;

-- One partition a UTC day, made ahead. A day that already has rows in the default partition stays there: nothing is moved here.
-- A partition is made apart and then attached: PARTITION OF would lock the parent against every receiver, and wait for all of them.
CREATE FUNCTION {schema}.make_body_partitions(days_ahead integer) RETURNS integer LANGUAGE plpgsql
    SET search_path = {schema}, pg_temp SET DateStyle = 'ISO, YMD' SET TimeZone = 'UTC' AS $webhook_inbox$
DECLARE
    day date;
    partition text;
    made integer := 0;
BEGIN
    FOR day IN SELECT now()::date + n FROM generate_series(0, days_ahead) n LOOP
        partition := 'bodies_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(partition) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM {schema}.bodies_default WHERE received_at >= day AND received_at < day + 1);
        EXECUTE format('CREATE TABLE %I.%I (LIKE bodies INCLUDING ALL)', current_schema(), partition);
        EXECUTE format('ALTER TABLE bodies ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       partition, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END $webhook_inbox$;

CREATE TABLE {schema}.conflicts (
    inbox_id     bigint      NOT NULL,
    body_sha256  bytea       NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    body         bytea       NOT NULL,
    headers      jsonb       NOT NULL,
    PRIMARY KEY (inbox_id, body_sha256)
);

COMMENT ON TABLE {schema}.conflicts IS 'Other bodies that came under the id of an event whose signature does not cover the id: evidence, never applied.';

CREATE TABLE {schema}.reviews (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    inbox_id     bigint      NOT NULL,
    endpoint     text        NOT NULL,
    event_id     text        NOT NULL,
    summary      text        NOT NULL,
    details      jsonb       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    resolved_at  timestamptz
);

CREATE INDEX reviews_open ON {schema}.reviews (created_at, id) WHERE resolved_at IS NULL;
CREATE INDEX reviews_event ON {schema}.reviews (inbox_id);

CREATE TABLE {schema}.outbox (
    id              uuid        NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
    aggregate_type  text        NOT NULL DEFAULT '',
    aggregate_id    text        NOT NULL DEFAULT '',
    event_type      text        NOT NULL,
    payload         jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    published_at    timestamptz,
    inbox_id        bigint
);

CREATE INDEX outbox_unpublished ON {schema}.outbox (created_at, id) WHERE published_at IS NULL;

-- An operator's SELECT must not fail on the one body that jsonb refuses (NUL, lone surrogates, NaN, too deep, not UTF-8).
CREATE FUNCTION {schema}.jsonb_or_null(body bytea) RETURNS jsonb LANGUAGE plpgsql STABLE AS $webhook_inbox$
BEGIN
    RETURN convert_from(body, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $webhook_inbox$;

CREATE VIEW {schema}.events AS
SELECT i.id, i.provider, i.endpoint, i.account, i.environment, i.event_id, i.event_type, i.state, i.origin,
       i.created_at, i.received_at, i.available_at, i.processed_at, i.attempts, i.last_error, i.secret_label,
       i.body_sha256, i.body_bytes, i.kept,
       b.body, b.headers, p.payload,
       CASE WHEN b.body IS NULL THEN 'not kept' WHEN p.payload IS NULL THEN 'not jsonb' ELSE 'jsonb' END AS payload_state,
       EXISTS (SELECT FROM {schema}.conflicts c WHERE c.inbox_id = i.id) AS conflicting
FROM {schema}.inbox i
LEFT JOIN {schema}.bodies b ON b.received_at = i.received_at AND b.id = i.id
CROSS JOIN LATERAL (SELECT {schema}.jsonb_or_null(b.body) AS payload) p;

COMMENT ON VIEW {schema}.events IS 'Events with their bytes, and as jsonb where jsonb can hold them; payload_state says why not.';
