-- Register an incarnation of a worker; its lease runs from now. %(lease_seconds)s: seconds. Returns (id,). P-CLOCK.
INSERT INTO {schema}.workers (name, lease_ends_at)
VALUES (%(name)s, clock_timestamp() + make_interval(secs => %(lease_seconds)s::float8))
RETURNING id
