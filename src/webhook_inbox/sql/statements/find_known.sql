-- Find which of some events are here already, whatever became of them. Arrays of one length: %(accounts)s, %(environments)s, %(event_ids)s.
-- Returns (position, state), the position from 1, of each that is. Locks nothing. Index: inbox_event_key, one probe each. P-FIND.
SELECT given.position, known.state
FROM unnest(%(accounts)s::text[], %(environments)s::text[], %(event_ids)s::text[])
     WITH ORDINALITY AS given (account, environment, event_id, position)
JOIN LATERAL (SELECT i.state FROM {schema}.inbox i
              WHERE i.provider = %(provider)s AND i.endpoint = %(endpoint)s AND i.account = given.account
                AND i.environment = given.environment AND i.event_id = given.event_id
              LIMIT 1) known ON true
