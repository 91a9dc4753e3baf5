-- Give the exact bytes and the headers of an event: (body, headers as text), or no row where they are not kept any more.
-- %(row_id)s. Locks nothing. Indexes: primary keys.
SELECT b.body, b.headers::text
FROM {schema}.inbox i
JOIN {schema}.bodies b ON b.received_at = i.received_at AND b.id = i.id
WHERE i.id = %(row_id)s::bigint
