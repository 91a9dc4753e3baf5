-- Route messages that nobody has routed yet, in the order in which they were written: a row in sends for each destination that is to
-- have one; where no rule names any, the message is unrouted, and stays.
-- %(patterns)s (of LIKE), %(targets)s: the rules; %(destinations)s, %(ordered)s: those that there are. Arrays of equal lengths.
-- An order key longer than an index can hold is kept as its digest.
-- Returns (destination, how many); and ('', how many) for what is unrouted. Locks the messages; rows that another session holds are
-- skipped. Index: outbox_waiting. P-OUT.
WITH due AS MATERIALIZED (
    SELECT id, position, aggregate_type, aggregate_id, event_type, destination
    FROM {schema}.outbox
    WHERE state = 'waiting' AND published_at IS NULL
    ORDER BY position
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
), routed AS MATERIALIZED (
    SELECT due.id, known.name, due.position,
           CASE WHEN NOT known.ordered OR due.aggregate_id = '' THEN NULL
                WHEN octet_length(aggregate.key) <= 1000 THEN aggregate.key
                ELSE 'sha256:' || encode(sha256(convert_to(aggregate.key, 'UTF8')), 'hex') END AS order_key
    FROM due
    CROSS JOIN LATERAL (SELECT due.aggregate_type || '/' || due.aggregate_id) AS aggregate (key)
    JOIN unnest(%(destinations)s::text[], %(ordered)s::boolean[]) AS known (name, ordered)
      ON CASE WHEN due.destination <> '' THEN known.name = due.destination
              ELSE EXISTS (SELECT FROM unnest(%(patterns)s::text[], %(targets)s::text[]) AS rule (pattern, target)
                           WHERE rule.target = known.name AND due.event_type LIKE rule.pattern) END
), written AS (
    INSERT INTO {schema}.sends (message_id, destination, position, order_key)
    SELECT id, name, position, order_key FROM routed ORDER BY position
    ON CONFLICT (message_id, destination) DO NOTHING
), marked AS (
    UPDATE {schema}.outbox o
    SET state = CASE WHEN EXISTS (SELECT FROM routed WHERE routed.id = o.id) THEN 'routed' ELSE 'unrouted' END
    WHERE o.id = ANY (ARRAY(SELECT due.id FROM due))
    RETURNING o.id, o.state
)
SELECT name, count(*) FROM routed GROUP BY name
UNION ALL
SELECT '', count(*) FROM marked WHERE state = 'unrouted' HAVING count(*) > 0
