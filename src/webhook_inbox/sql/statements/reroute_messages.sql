-- Have messages that no route named routed again, where one does now: a release may bring the destination that they are for.
-- %(patterns)s (of LIKE): the rules'; %(destinations)s: those that there are. Returns (how many,). Index: outbox_unrouted.
WITH again AS (
    UPDATE {schema}.outbox
    SET state = 'waiting'
    WHERE state = 'unrouted'
      AND CASE WHEN destination <> '' THEN destination = ANY (%(destinations)s::text[])
               ELSE event_type LIKE ANY (%(patterns)s::text[]) END
    RETURNING id
)
SELECT count(*) FROM again
