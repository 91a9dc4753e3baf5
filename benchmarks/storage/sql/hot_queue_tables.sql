-- What is still to be done moves into a narrow table; an event's own row is written when it comes and when it is settled, and by nothing
-- between. No index of that row has the state in its predicate, so that settling it can stay on its page (a HOT update). Half of each
-- page is left free, in both tables: all events of a page are claimed, and settled, at about the same time.
DROP VIEW webhooks.events;
DROP INDEX webhooks.inbox_unfinished, webhooks.inbox_attention, webhooks.inbox_due, webhooks.inbox_leased, webhooks.inbox_order,
    webhooks.inbox_order_leased;
ALTER TABLE webhooks.inbox DROP COLUMN available_at, DROP COLUMN claims, DROP COLUMN worker_id, DROP COLUMN crashes, DROP COLUMN solitary,
    DROP COLUMN give_up_at, DROP COLUMN order_key;
ALTER TABLE webhooks.inbox SET (fillfactor = 50);

CREATE TABLE webhooks.queue (
    id            bigint      PRIMARY KEY,
    available_at  timestamptz NOT NULL DEFAULT now(),
    give_up_at    timestamptz,
    worker_id     bigint,
    claims        integer     NOT NULL DEFAULT 0,
    attempts      integer     NOT NULL DEFAULT 0,
    crashes       integer     NOT NULL DEFAULT 0,
    solitary      boolean     NOT NULL DEFAULT false,
    endpoint      text        NOT NULL,
    state         text        NOT NULL,
    order_key     text
) WITH (fillfactor = 50);
CREATE INDEX queue_due ON webhooks.queue (endpoint, available_at, id) WHERE state IN ('waiting', 'retrying');
CREATE INDEX queue_leased ON webhooks.queue (worker_id) WHERE state = 'leased';
CREATE INDEX queue_attention ON webhooks.queue (state, available_at) WHERE state IN ('dead', 'quarantined');
CREATE INDEX queue_order ON webhooks.queue (endpoint, order_key, id)
    WHERE order_key IS NOT NULL AND state IN ('waiting', 'leased', 'retrying', 'dead');
CREATE INDEX queue_order_leased ON webhooks.queue (endpoint, order_key) WHERE order_key IS NOT NULL AND state = 'leased';
