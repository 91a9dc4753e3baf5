-- Say for how long the oldest due message of each destination has been due, in seconds; 0 where none is.
-- %(destinations)s: an array. Changes nothing. Returns (destination, seconds). Index: sends_due, whose first row it reads.
SELECT known.name, coalesce((
    SELECT extract(epoch FROM clock_timestamp() - s.available_at)::float8
    FROM {schema}.sends s
    WHERE s.destination = known.name AND s.state IN ('waiting', 'retrying') AND s.available_at <= statement_timestamp()
    ORDER BY s.available_at
    LIMIT 1
), 0.0::float8)
FROM unnest(%(destinations)s::text[]) AS known (name)
