-- Forget incarnations whose lease ended long ago and that hold no event. %(seconds)s: how long ago.
DELETE FROM {schema}.workers w
WHERE w.lease_ends_at < clock_timestamp() - make_interval(secs => %(seconds)s::float8)
  AND NOT EXISTS (SELECT FROM {schema}.inbox i WHERE i.worker_id = w.id AND i.state = 'leased')
RETURNING w.id
