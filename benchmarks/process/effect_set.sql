-- The same for a set of events, in three statements for all of them; parameters are arrays, in order, each once.
UPDATE accounts SET balance = balance + due.amount
FROM (SELECT account_id, sum(amount) AS amount FROM unnest($1::integer[], $2::bigint[]) AS e (account_id, amount) GROUP BY 1) due
WHERE accounts.id = due.account_id;
INSERT INTO ledger (event_id, account_id, amount)
SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[]);
INSERT INTO messages (event_id, payload)
SELECT event_id, jsonb_build_object('account', account_id, 'amount', amount)
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS e (event_id, account_id, amount);
