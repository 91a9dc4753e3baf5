-- Take one due event, do its three business statements, mark it, and commit once.
BEGIN;
UPDATE webhooks.inbox SET state = 'processed', processed_at = clock_timestamp(), attempts = attempts + 1
WHERE id = (
    SELECT id FROM webhooks.inbox
    WHERE endpoint = 'stripe' AND state IN ('waiting', 'retrying') AND available_at <= statement_timestamp()
    ORDER BY available_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING event_id AS event, abs(hashtext(event_id)) % 1000 AS account \gset
UPDATE accounts SET balance = balance + 4900 WHERE id = :account;
INSERT INTO ledger (event_id, account_id, amount) VALUES (:event, :account, 4900);
INSERT INTO messages (event_id, payload) VALUES (:event, '{"account": 1, "amount": 4900}');
COMMIT;
