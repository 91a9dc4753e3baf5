-- webhook-inbox: who may do what in the schema, and no more. Run it as who may create roles, and again after each migration: it ends in
-- the same however often it runs. None of these roles can log in; grant one to the user of each process.
BEGIN;

DO $webhook_inbox$
DECLARE
    ours CONSTANT regnamespace := quote_ident({schema_text});
    parts CONSTANT text[] := ARRAY[{parts_text}];
    everybody CONSTANT text := (SELECT string_agg(quote_ident(part), ', ') FROM unnest(parts) part);
    role text;
    command text;
BEGIN
    FOREACH role IN ARRAY array_prepend({owner_text}, parts) LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
    END LOOP;
    -- Only who can become the owner may hand something over to it. From PostgreSQL 16 on, to have made a role is not enough.
    IF NOT pg_has_role({owner_text}, CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END) THEN
        EXECUTE format('GRANT %I TO %I', {owner_text}, current_user);
    END IF;
    EXECUTE format('ALTER SCHEMA %s OWNER TO %I', ours, {owner_text});
    FOR command IN
        SELECT format('ALTER %s %s OWNER TO %I', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass, {owner_text})
        FROM pg_catalog.pg_class
        WHERE relnamespace = ours AND relkind IN ('p', 'r', 'v') AND relowner <> quote_ident({owner_text})::regrole
          AND (relname = ANY (ARRAY[{relations}])
               OR oid IN (SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = to_regclass(format('%s.bodies', ours))))
        UNION ALL
        SELECT format('ALTER FUNCTION %s OWNER TO %I', oid::regprocedure, {owner_text})
        FROM pg_catalog.pg_proc
        WHERE pronamespace = ours AND proowner <> quote_ident({owner_text})::regrole AND proname = ANY (ARRAY[{functions}])
        -- What an earlier release needed is taken back before anything is given.
        UNION ALL
        SELECT format('REVOKE ALL ON %s FROM %s', oid::regclass, everybody)
        FROM pg_catalog.pg_class
        WHERE relnamespace = ours AND relname = ANY (ARRAY[{relations}, 'bodies_default', 'inbox_id_seq'])
        UNION ALL
        SELECT format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %s', oid::regprocedure, everybody)
        FROM pg_catalog.pg_proc
        WHERE pronamespace = ours AND proname = ANY (ARRAY[{functions}])
    LOOP
        EXECUTE command;
    END LOOP;
END $webhook_inbox$;

GRANT USAGE ON SCHEMA {schema} TO {receiver}, {worker}, {relay}, {operator}, {reader};

-- Receives for queued endpoints: it adds events, and can neither read a body nor change or delete anything that is there.
GRANT SELECT ON {schema}.migrations TO {receiver};
GRANT SELECT (id, provider, endpoint, account, environment, event_id, state, origin, received_at, body_sha256),
      INSERT (id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label, body_sha256,
              body_bytes, kept, last_error, order_key)
    ON {schema}.inbox TO {receiver};
GRANT USAGE ON SEQUENCE {schema}.inbox_id_seq TO {receiver};
GRANT EXECUTE ON FUNCTION {schema}.next_event_id TO {receiver};
GRANT INSERT ON {schema}.bodies TO {receiver};
GRANT SELECT (inbox_id, body_sha256), INSERT ON {schema}.conflicts TO {receiver};
GRANT SELECT (name, lease_ends_at, stopped) ON {schema}.workers TO {receiver};
GRANT SELECT, INSERT, UPDATE (number) ON {schema}.counters TO {receiver};

-- Runs handlers, in a worker or while a delivery waits (inline, hybrid); reconciles, and forgets what is old.
GRANT {receiver} TO {worker};
GRANT SELECT, INSERT, DELETE,
      UPDATE (state, available_at, processed_at, attempts, last_error, effect_transaction, claims, worker_id, crashes, solitary, give_up_at)
    ON {schema}.inbox TO {worker};
GRANT SELECT, DELETE ON {schema}.bodies TO {worker};
GRANT DELETE ON {schema}.conflicts TO {worker};
GRANT SELECT (id, inbox_id), INSERT, DELETE ON {schema}.attempts TO {worker};
GRANT SELECT (id, inbox_id, resolved_at), INSERT, DELETE ON {schema}.reviews TO {worker};
GRANT SELECT (id), INSERT ON {schema}.outbox TO {worker};
GRANT SELECT, INSERT, UPDATE (version, inbox_id) ON {schema}.versions TO {worker};
GRANT SELECT, INSERT, UPDATE (heartbeat_at, lease_ends_at, stopped), DELETE ON {schema}.workers TO {worker};
GRANT SELECT, UPDATE (spent_until) ON {schema}.endpoints TO {worker};
GRANT SELECT, INSERT, UPDATE ON {schema}.reconciles TO {worker};
GRANT DELETE ON {schema}.counters TO {worker};
GRANT SELECT, INSERT, UPDATE (reached_at, complete_at) ON {schema}.prunes TO {worker};
GRANT EXECUTE ON FUNCTION {schema}.seal_effect, {schema}.make_body_partitions, {schema}.drop_body_partition, {schema}.rehearse_commit,
      {schema}.rows_written
    TO {worker};

-- Sends the outbox; sees no event.
GRANT SELECT ON {schema}.migrations TO {relay};
GRANT SELECT, UPDATE (state, published_at), DELETE ON {schema}.outbox TO {relay};
GRANT SELECT, INSERT, UPDATE (state, available_at, attempts, claims, worker_id, give_up_at, sent_at, last_error)
    ON {schema}.sends TO {relay};
GRANT SELECT, INSERT, UPDATE (heartbeat_at, lease_ends_at, stopped) ON {schema}.workers TO {relay};

-- Reads everything, payloads included.
GRANT SELECT ON {schema}.attempts, {schema}.audit, {schema}.bodies, {schema}.bodies_default, {schema}.conflicts, {schema}.counters,
      {schema}.endpoints, {schema}.events, {schema}.inbox, {schema}.migrations, {schema}.outbox, {schema}.prunes, {schema}.reconciles,
      {schema}.reviews, {schema}.sends, {schema}.versions, {schema}.workers
    TO {reader};
GRANT EXECUTE ON FUNCTION {schema}.jsonb_or_null TO {reader};

-- Has events and messages run again or given up, by the command line; what it does stands in the audit, which it cannot change.
GRANT {reader} TO {operator};
GRANT INSERT (id, provider, endpoint, account, environment, event_id, event_type, state, origin, created_at, secret_label, body_sha256,
              body_bytes, kept, last_error, order_key),
      UPDATE (state, available_at, give_up_at, crashes, processed_at, effect_transaction, worker_id, origin, last_error), DELETE
    ON {schema}.inbox TO {operator};
GRANT USAGE ON SEQUENCE {schema}.inbox_id_seq TO {operator};
GRANT INSERT, DELETE ON {schema}.bodies TO {operator};
GRANT INSERT ON {schema}.audit TO {operator};
GRANT INSERT, UPDATE (paused_at, paused_by, concurrency, rate_events, rate_seconds, spent_until, limited_at, limited_by), DELETE
    ON {schema}.endpoints TO {operator};
GRANT UPDATE (resolved_at, resolved_by, resolution), DELETE ON {schema}.reviews TO {operator};
GRANT UPDATE (state) ON {schema}.outbox TO {operator};
GRANT UPDATE (state, available_at, give_up_at, attempts) ON {schema}.sends TO {operator};
GRANT DELETE ON {schema}.attempts, {schema}.conflicts, {schema}.counters TO {operator};
GRANT EXECUTE ON FUNCTION {schema}.next_event_id, {schema}.drop_body_partition TO {operator};
{members}
COMMIT;
