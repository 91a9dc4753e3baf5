-- The worker's side: claims and leases, the history of failures, order by key, and what operators switch at run time.
-- Transactional. A release that knows only version 1 goes on working: every new column has a default, no old one changes.

ALTER TABLE {schema}.inbox
    ADD COLUMN claims        integer     NOT NULL DEFAULT 0,
    ADD COLUMN worker_id     bigint,
    ADD COLUMN crashes       integer     NOT NULL DEFAULT 0,
    ADD COLUMN solitary      boolean     NOT NULL DEFAULT false,
    ADD COLUMN give_up_at    timestamptz,
    ADD COLUMN order_key     text;

COMMENT ON COLUMN {schema}.inbox.claims IS 'The fencing token: raised by each claim, never given back.';
COMMENT ON COLUMN {schema}.inbox.attempts IS 'Runs begun; given back where the run was not the event''s fault.';
COMMENT ON COLUMN {schema}.inbox.worker_id IS 'The worker incarnation that holds the lease; null where nobody does.';
COMMENT ON COLUMN {schema}.inbox.crashes IS 'Unexplained deaths of workers under this event.';
COMMENT ON COLUMN {schema}.inbox.solitary IS 'Runs alone: a worker died under it.';
COMMENT ON COLUMN {schema}.inbox.give_up_at IS 'When retrying, or waiting for NotYet, ends in dead; set at the first failure.';

-- The claim walks one endpoint's due events in order; finished rows are not in the index.
CREATE INDEX inbox_due ON {schema}.inbox (endpoint, available_at, id) WHERE state IN ('waiting', 'retrying');
CREATE INDEX inbox_leased ON {schema}.inbox (worker_id) WHERE state = 'leased';
-- The head of a key is its oldest event that is not settled.
CREATE INDEX inbox_order ON {schema}.inbox (endpoint, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('waiting', 'leased', 'retrying', 'dead');
CREATE INDEX inbox_order_leased ON {schema}.inbox (endpoint, order_key) WHERE order_key IS NOT NULL AND state = 'leased';

-- The next event's id, for events that come in one statement and keep their order of arrival whatever order they are inserted in.
-- The search_path, because a schema's name may be anything and nextval wants the sequence's as text.
CREATE FUNCTION {schema}.next_event_id() RETURNS bigint LANGUAGE sql VOLATILE
    SET search_path = {schema}, pg_temp AS $webhook_inbox$ SELECT nextval('inbox_id_seq') $webhook_inbox$;

-- Called last, in the transaction that the handlers were given: one that ended it is in another one now. Events whose handlers came to
-- nothing lose their mark and stay with the worker that holds them.
CREATE FUNCTION {schema}.seal_effect(transaction text, events bigint[], undone bigint[], worker bigint) RETURNS void
    -- One plan, by the primary key, for every call: to plan it anew costs the server more than all else here.
    LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' SET enable_seqscan = off AS $webhook_inbox$
BEGIN
    IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM transaction
       OR (SELECT count(*) FROM {schema}.inbox WHERE id = ANY (events || undone) AND effect_transaction::text = transaction)
          <> cardinality(events || undone)
    THEN
        RAISE EXCEPTION 'a handler ended the transaction it was given' USING ERRCODE = 'WI001';
    END IF;
    IF current_user <> coalesce(nullif(current_setting('webhook_inbox.role', true), ''), session_user) THEN  -- '': after RESET ALL
        RAISE EXCEPTION 'a handler left another role' USING ERRCODE = '42501';
    END IF;
    -- SET LOCAL outlives a savepoint that is released: the next handler would have written into another schema, or under another rule.
    IF cardinality(events || undone) > 1 AND nullif(current_setting('webhook_inbox.settings', true), '') <>
       concat_ws('|', current_setting('search_path'), current_setting('TimeZone'), current_setting('DateStyle'),
                 current_setting('IntervalStyle'), current_setting('row_security'), current_setting('session_replication_role'))
    THEN
        RAISE EXCEPTION 'a handler left another setting to the events that share its transaction' USING ERRCODE = 'WI002';
    END IF;
    IF cardinality(undone) > 0 THEN
        UPDATE {schema}.inbox SET state = 'leased', processed_at = NULL, effect_transaction = NULL, worker_id = worker
        WHERE id = ANY (undone);
    END IF;
    PERFORM set_config('webhook_inbox.sealed', transaction, true),
            set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
END $webhook_inbox$;

CREATE TABLE {schema}.workers (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text        NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT now(),
    heartbeat_at   timestamptz NOT NULL DEFAULT now(),
    lease_ends_at  timestamptz NOT NULL,
    stopped        boolean     NOT NULL DEFAULT false
) WITH (fillfactor = 50);

COMMENT ON TABLE {schema}.workers IS 'One row per incarnation of a worker process; its lease is the lease of every event it holds.';

CREATE TABLE {schema}.attempts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    inbox_id     bigint      NOT NULL,
    attempt      integer     NOT NULL,
    claim        integer     NOT NULL,
    worker       text        NOT NULL,
    started_at   timestamptz NOT NULL,
    seconds      double precision NOT NULL,
    outcome      text        NOT NULL,
    error_type   text        NOT NULL DEFAULT '',
    sqlstate     text        NOT NULL DEFAULT '',
    error        text        NOT NULL DEFAULT '',
    traceback    text        NOT NULL DEFAULT ''
);

COMMENT ON TABLE {schema}.attempts IS 'Runs that did not end in processed; written after their rollback, so they survive it.';

CREATE INDEX attempts_event ON {schema}.attempts (inbox_id, id);

CREATE TABLE {schema}.versions (
    endpoint  text    NOT NULL,
    key       text    NOT NULL,
    version   numeric NOT NULL,
    PRIMARY KEY (endpoint, key)
);

COMMENT ON TABLE {schema}.versions IS 'The newest version applied of each key that a handler guards with tx.stale.';

CREATE TABLE {schema}.endpoints (
    name       text        PRIMARY KEY,
    paused_at  timestamptz NOT NULL DEFAULT now(),
    paused_by  text        NOT NULL DEFAULT ''
);

COMMENT ON TABLE {schema}.endpoints IS 'Endpoints whose events are not claimed for now; receiving goes on.';
