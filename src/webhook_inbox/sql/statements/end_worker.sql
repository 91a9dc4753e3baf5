-- Give up a lease at once: the worker has stopped. What it may still hold, because a handler would not end, is nobody's crash.
UPDATE {schema}.workers SET lease_ends_at = clock_timestamp(), stopped = true WHERE id = %(worker_id)s RETURNING id
