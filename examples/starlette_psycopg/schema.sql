CREATE TABLE suppressions (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id  text NOT NULL,
    address   text NOT NULL,
    reason    text NOT NULL
);
