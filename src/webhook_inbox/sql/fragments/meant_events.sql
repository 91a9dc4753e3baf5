-- Whether row event of inbox is meant by an operator's filter; whatever is empty, or 0, asks for nothing. The server knows the values
-- when it plans, so what asks for nothing costs nothing, and each of the others may be found by its index.
-- %(rows)s, %(states)s: arrays. %(event_type)s: one that ends in * means all that begin so. %(error)s: a part of last_error, in any
-- letter case. %(kept)s: only those whose bytes are kept. %(identified)s: only those in which an event was found, see under_digest. %(since)s, %(until)s: of received_at, microseconds since 1970; until is not meant itself. %(first_row)s, %(last_row)s:
-- the row ids between which to look.
-- %(event_id)s: it is the last column of inbox_event_key, so the few prefixes that there are are walked, one probe of the index each.
event.id BETWEEN %(first_row)s::bigint AND %(last_row)s::bigint
  AND (cardinality(%(rows)s::bigint[]) = 0 OR event.id = ANY (%(rows)s::bigint[]))
  AND (cardinality(%(states)s::text[]) = 0 OR event.state = ANY (%(states)s::text[]))
  AND (%(endpoint)s::text = '' OR event.endpoint = %(endpoint)s::text)
  AND (%(event_type)s::text = '' OR event.event_type = %(event_type)s::text
       OR right(%(event_type)s::text, 1) = '*' AND starts_with(event.event_type, left(%(event_type)s::text, -1)))
  AND (%(error)s::text = '' OR strpos(lower(event.last_error), lower(%(error)s::text)) > 0)
  AND (NOT %(identified)s::boolean OR event.event_type <> '' OR NOT starts_with(event.event_id, 'sha256:'))
  AND (NOT %(kept)s::boolean
       OR EXISTS (SELECT FROM {schema}.bodies b WHERE b.received_at = event.received_at AND b.id = event.id))
  AND (%(since)s::bigint = 0 OR event.received_at >= timestamptz 'epoch' + %(since)s::bigint * interval '1 microsecond')
  AND (%(until)s::bigint = 0 OR event.received_at < timestamptz 'epoch' + %(until)s::bigint * interval '1 microsecond')
  AND (%(event_id)s::text = '' OR event.id = ANY (ARRAY(
      WITH RECURSIVE prefix AS (
          (SELECT provider, endpoint, account, environment FROM {schema}.inbox
           ORDER BY provider, endpoint, account, environment LIMIT 1)
          UNION ALL
          SELECT following.* FROM prefix, LATERAL (
              SELECT i.provider, i.endpoint, i.account, i.environment FROM {schema}.inbox i
              WHERE (i.provider, i.endpoint, i.account, i.environment)
                    > (prefix.provider, prefix.endpoint, prefix.account, prefix.environment)
              ORDER BY i.provider, i.endpoint, i.account, i.environment LIMIT 1
          ) following
      )
      SELECT same.id FROM prefix, LATERAL (
          SELECT i.id FROM {schema}.inbox i
          WHERE i.provider = prefix.provider AND i.endpoint = prefix.endpoint AND i.account = prefix.account
            AND i.environment = prefix.environment AND i.event_id = %(event_id)s::text
          LIMIT 1
      ) same
  )))
