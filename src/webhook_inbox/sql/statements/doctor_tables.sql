-- Look at our tables in the catalogue, which needs no privilege on them: (kind, name), where kind is 'index' for each index that is valid,
-- and 'unvacuumed' for each table whose autovacuum is off.
-- A partition's index goes with its table's. %(schema)s: the schema's name. Locks nothing.
WITH ours AS (
    SELECT c.oid, c.relname::text AS name, c.relkind, c.relispartition, c.reloptions
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
)
SELECT 'index', i.relname::text
FROM ours JOIN pg_catalog.pg_index x ON x.indrelid = ours.oid JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
WHERE x.indisvalid AND NOT ours.relispartition
UNION ALL
SELECT 'unvacuumed', name
FROM ours, LATERAL pg_catalog.pg_options_to_table(reloptions) options
WHERE options.option_name = 'autovacuum_enabled' AND NOT options.option_value::boolean
ORDER BY 1, 2
