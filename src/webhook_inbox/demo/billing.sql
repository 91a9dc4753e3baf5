-- The tables of the billing example. Amounts are integers in the currency's minor unit: 4900 eur is 49.00 EUR.

CREATE TABLE invoices (
    id          text        PRIMARY KEY,
    customer    text        NOT NULL,
    currency    text        NOT NULL,
    amount_due  bigint      NOT NULL,
    status      text        NOT NULL CHECK (status IN ('open', 'paid', 'void')),
    paid_at     timestamptz
);

CREATE TABLE ledger_entries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    invoice_id  text        NOT NULL REFERENCES invoices,
    kind        text        NOT NULL CHECK (kind IN ('payment')),
    currency    text        NOT NULL,
    amount      bigint      NOT NULL,
    booked_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ledger_entry_once UNIQUE (invoice_id, kind)
);

COMMENT ON CONSTRAINT ledger_entry_once ON ledger_entries IS
    'One payment per invoice, also where the provider tells of it under two event ids.';
