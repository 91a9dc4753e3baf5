-- List what operators did to an event, oldest first: (at in microseconds since 1970, actor, action, reason, state before, state after).
-- %(row_id)s. Locks nothing. Index: audit_event.
SELECT (extract(epoch FROM at) * 1000000)::bigint, actor, action, reason, before ->> 'state', after ->> 'state'
FROM {schema}.audit
WHERE inbox_id = %(row_id)s::bigint
ORDER BY id
