-- Hold one receiver's ledger against what the provider knows it sent.
-- Parameters: invoices text[], due integer[] (payments the ledger should hold), amounts bigint[] (minor units), in step;
-- only text[] (the invoices to look at, null for all).
-- Returns one row. Finds the receiver's tables by search_path.
-- lost: nothing is booked for a payment. doubled: more is booked than was paid, or for an invoice nobody sent.

WITH sent AS (
    SELECT * FROM unnest(%(invoices)s::text[], %(due)s::integer[], %(amounts)s::bigint[]) AS sent (invoice_id, due, amount)
), booked AS (
    SELECT invoice_id, count(*) AS times, sum(amount) AS amount FROM ledger_entries WHERE kind = 'payment' GROUP BY invoice_id
), compared AS (
    SELECT coalesce(sent.due, 0) AS due,
           coalesce(booked.times, 0) AS times,
           coalesce(booked.amount, 0) - coalesce(sent.due * sent.amount, 0) AS off_by
    FROM sent FULL JOIN booked USING (invoice_id)
    WHERE %(only)s::text[] IS NULL OR invoice_id = ANY (%(only)s)
)
SELECT coalesce(sum(due), 0)::integer AS due,
       coalesce(sum(times), 0)::integer AS booked,
       (count(*) FILTER (WHERE times < due))::integer AS lost,
       (count(*) FILTER (WHERE times > due))::integer AS doubled,
       coalesce(-sum(off_by) FILTER (WHERE off_by < 0), 0)::bigint AS missing,
       coalesce(sum(off_by) FILTER (WHERE off_by > 0), 0)::bigint AS surplus,
       (SELECT count(*) FROM outbox)::integer AS announced,
       (SELECT count(*) FROM reviews)::integer AS reviews
FROM compared
