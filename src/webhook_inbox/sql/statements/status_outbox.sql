-- Count what the outbox still holds and the reviews that are open:
-- (unpublished, seconds since the oldest of them, open reviews). Indexes: outbox_unpublished, reviews_open.
SELECT (SELECT count(*) FROM {schema}.outbox WHERE published_at IS NULL),
       (SELECT extract(epoch FROM clock_timestamp() - min(created_at))::float8 FROM {schema}.outbox WHERE published_at IS NULL),
       (SELECT count(*) FROM {schema}.reviews WHERE resolved_at IS NULL)
