CREATE TABLE payments (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id  text   NOT NULL,
    order_id  text   NOT NULL,
    amount    bigint NOT NULL,
    currency  text   NOT NULL
);
