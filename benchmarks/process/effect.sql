-- What a handler does for one event, in one transaction. Parameters stand in order, each once.
UPDATE accounts SET balance = balance + $1 WHERE id = $2;
INSERT INTO ledger (event_id, account_id, amount) VALUES ($1, $2, $3);
INSERT INTO messages (event_id, payload) VALUES ($1, $2);
