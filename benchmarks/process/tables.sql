-- The business that every queue's handler writes into. `at` is when an effect happened, by the server's clock.
CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL DEFAULT 0);
INSERT INTO accounts (id) SELECT generate_series(0, 999);
CREATE TABLE ledger (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    text        NOT NULL,
    account_id  integer     NOT NULL,
    amount      bigint      NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE messages (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id  text  NOT NULL,
    payload   jsonb NOT NULL
);
