-- Which row of sends, called send, relay %(worker_id)s may claim for %(destination)s now; see claim_messages.
destination = %(destination)s AND state IN ('waiting', 'retrying') AND available_at <= statement_timestamp()
      AND EXISTS (SELECT FROM {schema}.workers w WHERE w.id = %(worker_id)s AND w.lease_ends_at > clock_timestamp())
      AND (order_key IS NULL OR NOT EXISTS (
          SELECT FROM {schema}.sends other
          WHERE other.destination = send.destination AND other.order_key = send.order_key
            AND other.state IN ('waiting', 'leased', 'retrying', 'dead')
            AND (other.state = 'leased' OR other.position < send.position AND (other.state <> 'dead' OR %(holding)s::boolean))))
