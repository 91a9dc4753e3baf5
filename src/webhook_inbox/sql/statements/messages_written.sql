-- List the messages that this transaction has put into the outbox, in their order: it alone began at this very microsecond.
-- Returns (event_type, aggregate_type, aggregate_id, destination, payload as text). Locks nothing. Index: outbox_waiting.
SELECT event_type, aggregate_type, aggregate_id, destination, payload::text
FROM {schema}.outbox
WHERE state = 'waiting' AND published_at IS NULL AND created_at = now()
ORDER BY position
