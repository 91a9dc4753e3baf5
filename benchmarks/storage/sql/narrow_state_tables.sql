-- After hot_queue_tables: the narrow row stays when the event is settled and carries the mark, so the event's own row never changes.
ALTER TABLE webhooks.inbox SET (fillfactor = 100);
ALTER TABLE webhooks.queue ADD COLUMN processed_at timestamptz, ADD COLUMN effect_transaction xid8;
DROP TRIGGER refuse_unsealed_effect ON webhooks.inbox;
CREATE CONSTRAINT TRIGGER refuse_unsealed_effect AFTER INSERT OR UPDATE OF effect_transaction ON webhooks.queue
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.effect_transaction IS NOT NULL) EXECUTE FUNCTION webhooks.refuse_unsealed_effect();

CREATE OR REPLACE FUNCTION webhooks.seal_effect(transaction text, events bigint[], undone bigint[], worker bigint) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM transaction
       OR (SELECT count(*) FROM webhooks.queue WHERE id = ANY (events || undone) AND effect_transaction::text = transaction)
          <> cardinality(events || undone)
    THEN
        RAISE EXCEPTION 'a handler ended the transaction it was given' USING ERRCODE = 'WI001';
    END IF;
    IF current_user <> coalesce(nullif(current_setting('webhook_inbox.role', true), ''), session_user) THEN
        RAISE EXCEPTION 'a handler left another role' USING ERRCODE = '42501';
    END IF;
    PERFORM set_config('webhook_inbox.sealed', transaction, true),
            set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);
END $$;
