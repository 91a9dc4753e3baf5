-- The operator's side, once more: what a rehearsal has written, and events that an older receiver has processed.
-- Transactional. A release that knows only version 6 goes on working: to its receivers and workers an imported event is a processed one.

-- The wider list holds for every row that there is, so none is looked at here, where everybody waits; see 0008.
ALTER TABLE {schema}.inbox
    DROP CONSTRAINT inbox_origin,
    ADD CONSTRAINT inbox_origin CHECK (origin IN ('delivery', 'reconcile', 'replay', 'import')) NOT VALID;

-- What COMMIT would check, without it: the seal, then whatever waits for the end. For a transaction that is rolled back in any case.
CREATE FUNCTION {schema}.rehearse_commit(transaction text, event bigint) RETURNS void LANGUAGE plpgsql AS $webhook_inbox$
BEGIN
    PERFORM {schema}.seal_effect(transaction, ARRAY[event], '{}', NULL);
    SET CONSTRAINTS ALL IMMEDIATE;
END $webhook_inbox$;

-- The rows of the user's tables that this transaction has written, and, with undone, after it went back to a savepoint, those that it had
-- replaced or deleted since. For a transaction that is rolled back in any case, which has marked this event of ours as its own.
-- A row names in xmin who wrote it, and in xmax who replaced, deleted or only locked it: this transaction or one of its savepoints, whose
-- ids lie between its own and that of the newest, made here; or a multixact no older than multixact_from. Whatever stays visible under
-- such an xmax is told, too, as not written, so that what is visible again afterwards is told from what was only locked. A table in which
-- nothing was written is not looked at; of each of the others at most rows_max rows are told, and content is null where the user may not
-- read it.
CREATE FUNCTION {schema}.rows_written(event bigint, transaction text, multixact_from bigint, undone boolean, rows_max integer)
    RETURNS TABLE (relation text, key text[], place text, written boolean, content text) LANGUAGE plpgsql AS $webhook_inbox$
DECLARE
    ids CONSTANT bigint := 4294967296;
    first bigint := transaction::bigint % ids;
    newest bigint;
    touched record;
BEGIN
    BEGIN  -- a savepoint, since there is something to catch
        UPDATE {schema}.inbox i SET solitary = i.solitary WHERE i.id = event RETURNING i.xmin::text::bigint INTO newest;
    EXCEPTION WHEN assert_failure THEN
        RAISE;
    END;
    FOR touched IN
        SELECT s.relid, format('%I.%I', s.schemaname, s.relname) AS name,
               ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                     WHERE i.indrelid = s.relid AND i.indisprimary) AS key
        FROM pg_catalog.pg_stat_xact_user_tables s
        WHERE s.schemaname <> {schema_text} AND NOT starts_with(s.schemaname::text, 'pg_')
          AND (s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0 OR current_setting('track_counts') = 'off')
        ORDER BY name
    LOOP
        IF NOT has_table_privilege(touched.relid, 'SELECT') THEN
            RETURN QUERY SELECT touched.name, touched.key, '', NOT undone, NULL::text;
            CONTINUE;
        END IF;
        RETURN QUERY EXECUTE format($query$
            SELECT $1, $2, t.ctid::text, false, CASE WHEN $3 THEN row_to_json(t.*)::text ELSE '' END FROM ONLY %s t
            WHERE (t.xmax::text::bigint - $4 + $6) %% $6 <= ($5 - $4 + $6) %% $6
               OR t.xmax::text::bigint BETWEEN $7 AND mxid_age('1')::bigint
            LIMIT $8
        $query$, touched.name)
        USING touched.name, touched.key, undone, first, newest, ids, multixact_from, CASE WHEN undone THEN rows_max END;
        CONTINUE WHEN undone;
        RETURN QUERY EXECUTE format($query$
            SELECT $1, $2, t.ctid::text, true, row_to_json(t.*)::text FROM ONLY %s t
            WHERE (t.xmin::text::bigint - $3 + $5) %% $5 <= ($4 - $3 + $5) %% $5
              AND pg_xact_status((($6::bigint) + (t.xmin::text::bigint - $3 + $5) %% $5)::text::xid8) = 'in progress'
            LIMIT $7
        $query$, touched.name) USING touched.name, touched.key, first, newest, ids, transaction, rows_max;
    END LOOP;
END $webhook_inbox$;
