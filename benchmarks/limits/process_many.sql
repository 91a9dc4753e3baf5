-- Take :rows due events with their bytes, do the three business statements for all of them as sets, and commit once.
BEGIN;
WITH due AS MATERIALIZED (
    SELECT id FROM webhooks.inbox
    WHERE endpoint = 'stripe' AND state IN ('waiting', 'retrying') AND available_at <= statement_timestamp()
    ORDER BY available_at, id LIMIT :rows FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE webhooks.inbox SET state = 'processed', processed_at = clock_timestamp(), attempts = attempts + 1
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING received_at, id, event_id
)
SELECT array_agg(event_id) AS events, array_agg(abs(hashtext(event_id)) % 1000) AS accounts, array_agg(4900) AS amounts,
       sum(length(body)) AS bytes
FROM taken JOIN webhooks.bodies USING (received_at, id) \gset
UPDATE accounts SET balance = balance + due.amount
FROM (
    SELECT account_id, sum(amount) AS amount
    FROM unnest(:accounts::integer[], :amounts::bigint[]) AS e (account_id, amount) GROUP BY 1
) due
WHERE accounts.id = due.account_id;
INSERT INTO ledger (event_id, account_id, amount)
SELECT * FROM unnest(:events::text[], :accounts::integer[], :amounts::bigint[]);
INSERT INTO messages (event_id, payload)
SELECT event_id, jsonb_build_object('account', account_id, 'amount', amount)
FROM unnest(:events::text[], :accounts::integer[], :amounts::bigint[]) AS e (event_id, account_id, amount);
COMMIT;
