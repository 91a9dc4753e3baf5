-- Take everything of ours out of the schema, in the caller's transaction, but delete no event and no message (P-KEEP): their keys are
-- what makes a redelivery a duplicate. The schema itself goes too, unless it holds something else or belongs to somebody else.
DO $webhook_inbox_remove$
BEGIN
    -- Any other level sees what was there when its transaction began: an event that came since would be deleted unseen.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'webhook-inbox: a downgrade in % does not see the latest events, and would delete them',
                upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state', HINT = 'Run it in READ COMMITTED.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations ' || {schema_text}, 0));
    LOCK TABLE {schema}.inbox, {schema}.outbox IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM {schema}.inbox) OR EXISTS (SELECT FROM {schema}.outbox) THEN
        RAISE EXCEPTION 'webhook-inbox: schema % holds events or messages, which a downgrade does not delete', quote_ident({schema_text})
            USING ERRCODE = 'object_in_use', HINT = 'Keep the schema: an older release works on it. Or drop it by hand, with every event in it.';
    END IF;
    IF EXISTS (SELECT FROM {schema}.migrations WHERE version > {known}) THEN
        RAISE EXCEPTION 'webhook-inbox: schema % was made by a newer release, which alone knows all that is in it', quote_ident({schema_text})
            USING ERRCODE = 'object_in_use', HINT = 'Downgrade with the release that upgraded it.';
    END IF;
    DROP VIEW IF EXISTS {views};
    DROP TABLE IF EXISTS {tables};
    DROP FUNCTION IF EXISTS {functions};
    BEGIN
        DROP SCHEMA {schema};
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        NULL;
    END;
END $webhook_inbox_remove$
