-- Bring the schema up to version {to} from whatever it is at, in the caller's transaction; what is applied already is left as it is,
-- whichever road it came by. One statement without parameters, so that any driver runs it and a script holds it as it stands.
DO $webhook_inbox_upgrade$
DECLARE
    step record;
    lock_wait text := current_setting('lock_timeout');
BEGIN
    -- Whoever waits for a table makes every later query on it wait behind, so a migrator does not wait without end.
    IF lock_wait = '0' THEN
        PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations ' || {schema_text}, 0));
    EXECUTE $webhook_inbox_text$
{bootstrap}
$webhook_inbox_text$;
    FOR step IN SELECT * FROM (VALUES
{steps}
    ) AS steps (version, name, serves_from, text) ORDER BY version LOOP
        CONTINUE WHEN EXISTS (SELECT FROM {schema}.migrations m WHERE m.version = step.version);
        EXECUTE step.text;
        INSERT INTO {schema}.migrations (version, name, serves_from) VALUES (step.version, step.name, step.serves_from);
    END LOOP;
    PERFORM {schema}.make_body_partitions({days_ahead});
    PERFORM set_config('lock_timeout', lock_wait, true);
END $webhook_inbox_upgrade$
