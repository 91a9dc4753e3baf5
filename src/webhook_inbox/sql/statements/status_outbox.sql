-- Count what the outbox still holds, the reviews that are open, and the bodies that are kept as evidence:
-- (unpublished, seconds since the oldest of them, sends that wait, that are retrying, open reviews, conflicts).
-- Indexes: outbox_unpublished, sends_due, reviews_open.
SELECT (SELECT count(*) FROM {schema}.outbox WHERE published_at IS NULL),
       (SELECT extract(epoch FROM clock_timestamp() - min(created_at))::float8 FROM {schema}.outbox WHERE published_at IS NULL),
       unsent.waiting, unsent.retrying,
       (SELECT count(*) FROM {schema}.reviews WHERE resolved_at IS NULL),
       (SELECT count(*) FROM {schema}.conflicts)
FROM (
    SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'retrying') AS retrying
    FROM {schema}.sends WHERE state IN ('waiting', 'retrying')
) unsent
