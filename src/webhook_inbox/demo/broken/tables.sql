-- Beside the tables of the billing example: the ids of the events seen, and what the inbox would have brought along.

CREATE TABLE webhook_events (
    event_id  text        PRIMARY KEY,
    seen_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE reviews (
    summary  text NOT NULL,
    details  text NOT NULL
);

CREATE TABLE outbox (
    message  text NOT NULL,
    invoice  text NOT NULL
);

ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entry_once;
