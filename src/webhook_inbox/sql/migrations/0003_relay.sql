-- The relay's side: where each message of the outbox goes, and what came of sending it there.
-- Transactional. A release that knows only version 2 goes on working: every new column has a default, no old one changes. The outbox
-- is written anew once, for its position: nothing has read it so far, so migrate before it is large.

ALTER TABLE {schema}.outbox
    ADD COLUMN position     bigint GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN destination  text  NOT NULL DEFAULT '',
    ADD COLUMN headers      jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN state        text  NOT NULL DEFAULT 'waiting',
    ADD CONSTRAINT outbox_state CHECK (state IN ('waiting', 'routed', 'unrouted'));

COMMENT ON COLUMN {schema}.outbox.position IS 'In which order messages were written; a lower one may be committed later.';
COMMENT ON COLUMN {schema}.outbox.destination IS 'The one destination that it is for; empty: wherever its type is routed to.';
COMMENT ON COLUMN {schema}.outbox.headers IS 'What travels along: trace context, correlation id, whatever the user gave.';
COMMENT ON COLUMN {schema}.outbox.state IS 'What routing came to; unrouted: no route names it. Whether it is sent, published_at says.';
COMMENT ON COLUMN {schema}.outbox.published_at IS 'When the last destination that it was routed to had confirmed it; null until then.';

CREATE INDEX outbox_waiting ON {schema}.outbox (position) WHERE state = 'waiting' AND published_at IS NULL;
CREATE INDEX outbox_unrouted ON {schema}.outbox (position) WHERE state = 'unrouted';
CREATE INDEX outbox_published ON {schema}.outbox (published_at) WHERE published_at IS NOT NULL;

CREATE TABLE {schema}.sends (
    message_id    uuid        NOT NULL REFERENCES {schema}.outbox ON DELETE CASCADE,
    destination   text        NOT NULL,
    position      bigint      NOT NULL,
    order_key     text,
    state         text        NOT NULL DEFAULT 'waiting',
    available_at  timestamptz NOT NULL DEFAULT now(),
    attempts      integer     NOT NULL DEFAULT 0,
    claims        integer     NOT NULL DEFAULT 0,
    worker_id     bigint,
    give_up_at    timestamptz,
    sent_at       timestamptz,
    last_error    text,
    PRIMARY KEY (message_id, destination),
    CONSTRAINT sends_state CHECK (state IN ('waiting', 'leased', 'retrying', 'sent', 'dead')),
    CONSTRAINT sends_sent CHECK ((state = 'sent') = (sent_at IS NOT NULL))
) WITH (fillfactor = 70);

COMMENT ON TABLE {schema}.sends IS 'One row per message and destination that it was routed to.';
COMMENT ON COLUMN {schema}.sends.order_key IS 'What it shares with the messages that it must not overtake; null: no order.';
COMMENT ON COLUMN {schema}.sends.claims IS 'The fencing token: raised by each claim, never given back.';
COMMENT ON COLUMN {schema}.sends.attempts IS 'Sends begun; given back where the destination itself was away, or the relay stopped.';
COMMENT ON COLUMN {schema}.sends.worker_id IS 'The relay incarnation that holds the lease, a row of workers; null where none does.';
COMMENT ON COLUMN {schema}.sends.sent_at IS 'When the destination had confirmed it.';

-- The claim walks one destination's due rows by when they are due; what is sent is not in the index. A row is found by its state and
-- never by a position that was reached, so one that is committed late is not passed over.
CREATE INDEX sends_due ON {schema}.sends (destination, available_at, position) WHERE state IN ('waiting', 'retrying');
CREATE INDEX sends_leased ON {schema}.sends (worker_id) WHERE state = 'leased';
CREATE INDEX sends_dead ON {schema}.sends (destination, available_at) WHERE state = 'dead';
-- The head of a key is its oldest message that is not settled.
CREATE INDEX sends_order ON {schema}.sends (destination, order_key, position)
    WHERE order_key IS NOT NULL AND state IN ('waiting', 'leased', 'retrying', 'dead');
