-- Claim what due names, as its message_id, and give what a send requires; see claim_messages.
claimed AS (
    UPDATE {schema}.sends
    SET state = 'leased', claims = claims + 1, attempts = attempts + 1, worker_id = %(worker_id)s
    WHERE destination = %(destination)s AND message_id = ANY (ARRAY(SELECT due.message_id FROM due))
    RETURNING message_id, claims, attempts, position
)
SELECT c.message_id::text, c.claims, c.attempts, o.event_type, o.aggregate_type, o.aggregate_id, o.payload::text, o.headers::text,
       (extract(epoch FROM greatest('0001-01-02Z', least('9999-12-30Z', o.created_at))) * 1000000)::bigint
FROM claimed c
JOIN LATERAL (SELECT * FROM {schema}.outbox WHERE outbox.id = c.message_id LIMIT 1) o ON true
ORDER BY c.position
