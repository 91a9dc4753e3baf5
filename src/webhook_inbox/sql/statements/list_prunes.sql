-- Say which of each endpoint's events have come of age since they were last looked through: received between since and until.
-- %(endpoints)s, %(days)s: as prune_bodies. %(stage)s: bodies, or events. %(complete_hours)s: since is 0 where all there is was not looked
-- through for so long. %(overlap_hours)s: how far behind the last walk to begin: a transaction may be committed late, and a row locked.
-- Returns (endpoint, since, until) in microseconds since 1970, one for each of endpoints. Locks nothing. Index: prunes_pkey. P-CLOCK.
SELECT policy.endpoint,
       CASE WHEN known.complete_at > now() - make_interval(hours => %(complete_hours)s::integer)
            THEN (extract(epoch FROM known.reached_at - make_interval(hours => %(overlap_hours)s::integer)) * 1000000)::bigint
            ELSE 0 END,
       (extract(epoch FROM now() - policy.days * interval '1 day') * 1000000)::bigint
FROM unnest(%(endpoints)s::text[], %(days)s::float8[]) AS policy (endpoint, days)
LEFT JOIN {schema}.prunes known ON known.endpoint = policy.endpoint AND known.stage = %(stage)s
