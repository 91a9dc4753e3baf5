CREATE TABLE entitlements (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id     text NOT NULL,
    customer_id  text NOT NULL,
    price_id     text NOT NULL,
    quantity     integer NOT NULL
);
