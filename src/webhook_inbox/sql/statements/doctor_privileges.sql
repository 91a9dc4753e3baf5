-- Say which of the privileges given this user lacks in a schema.
--
-- Parameters: schema text; names, privileges, columns text[], of one length: a table, sequence or function of ours, and a column or ''.
-- Returns:    name, privilege and column of each that it lacks, in their order.
SELECT given.name, given.privilege, given.part
FROM unnest(%(names)s::text[], %(privileges)s::text[], %(columns)s::text[]) WITH ORDINALITY AS given (name, privilege, part, position)
JOIN pg_catalog.pg_namespace n ON n.nspname = %(schema)s
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = given.name
LEFT JOIN pg_catalog.pg_proc p ON p.pronamespace = n.oid AND p.proname = given.name
WHERE NOT CASE given.privilege
    WHEN 'EXECUTE' THEN has_function_privilege(p.oid, 'EXECUTE')
    WHEN 'USAGE' THEN has_sequence_privilege(c.oid, 'USAGE')
    ELSE has_table_privilege(c.oid, given.privilege)
         OR CASE WHEN given.part <> '' THEN has_column_privilege(c.oid, given.part, given.privilege) ELSE false END
    END
ORDER BY given.position
