-- List what was applied: (version, name, serves_from), ascending.
SELECT version, name, serves_from FROM {schema}.migrations ORDER BY version
