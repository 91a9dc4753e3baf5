-- What leaves no row, counted: duplicates, refusals and failures. And who works need own no table to make days and to drop them.
-- Transactional. A release that knows only version 5 goes on working: it never looks here, and calls the functions as before.

CREATE TABLE {schema}.counters (
    began_at  timestamptz NOT NULL,
    endpoint  text        NOT NULL,
    outcome   text        NOT NULL,
    reason    text        NOT NULL DEFAULT '',
    number    bigint      NOT NULL,
    PRIMARY KEY (began_at, endpoint, outcome, reason)
) WITH (fillfactor = 70);

COMMENT ON TABLE {schema}.counters IS 'What leaves no row of its own, added up over all processes for ten minutes each; about, as what a process had not written when it was killed is missing.';

-- Partitions are their owner's to make and to drop, so both functions do it as their owner, whoever is allowed to call them. Both name
-- their search_path, and neither takes a name or a statement from its caller.
ALTER FUNCTION {schema}.make_body_partitions(integer) SECURITY DEFINER;
ALTER FUNCTION {schema}.drop_body_partition(timestamptz, integer) SECURITY DEFINER;
REVOKE EXECUTE ON FUNCTION {schema}.make_body_partitions(integer), {schema}.drop_body_partition(timestamptz, integer) FROM PUBLIC;
