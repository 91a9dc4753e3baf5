-- Let one event of an order key run at a time, whatever was claimed: a transaction lock, so that it works behind any pooler.
SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox order ' || %(endpoint)s || ' ' || %(order_key)s, 0))
