-- What reconcile knows: how far each list of a provider's has been walked, who walks it, and what came of it.
-- Transactional. A release that knows only version 4 goes on working: it never looks here.

CREATE TABLE {schema}.reconciles (
    endpoint      text        NOT NULL,
    account       text        NOT NULL DEFAULT '',
    made_at       timestamptz NOT NULL DEFAULT now(),
    holder        text        NOT NULL DEFAULT '',
    held_until    timestamptz NOT NULL DEFAULT '-infinity',
    began_at      timestamptz,
    since         timestamptz,
    cursor        text        NOT NULL DEFAULT '',
    seen          bigint      NOT NULL DEFAULT 0,
    present       bigint      NOT NULL DEFAULT 0,
    recovered     bigint      NOT NULL DEFAULT 0,
    failed        bigint      NOT NULL DEFAULT 0,
    out_of_reach  bigint      NOT NULL DEFAULT 0,
    complete_at   timestamptz,
    ended_at      timestamptz,
    last_error    text        NOT NULL DEFAULT '',
    PRIMARY KEY (endpoint, account)
);

COMMENT ON TABLE {schema}.reconciles IS 'One row for each list of past events that a provider was asked for.';
