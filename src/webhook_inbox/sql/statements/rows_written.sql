-- List the rows of the user's tables that this transaction has written, or, after it went back to a savepoint, those that it had
-- replaced or deleted: %(undone)s. %(row_id)s, %(transaction)s, %(multixact_from)s: as rehearse_event took and gave them.
-- %(rows_max)s: of each table. Returns (table, columns of its primary key, ctid, whether written, the row as JSON text; null: not to be
-- read, '': only locked, or about to be changed by somebody else). Reads these tables from end to end, within statement_timeout.
SELECT relation, key, place, written, content
FROM {schema}.rows_written(%(row_id)s::bigint, %(transaction)s::text, %(multixact_from)s::bigint, %(undone)s::boolean,
                           %(rows_max)s::integer)
