-- Forget the counters of more than a week ago. Returns how many.
WITH gone AS (
    DELETE FROM {schema}.counters WHERE began_at < now() - interval '7 days' RETURNING 1
)
SELECT count(*)::integer FROM gone
