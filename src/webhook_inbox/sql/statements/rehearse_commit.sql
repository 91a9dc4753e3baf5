-- Check all that COMMIT would check of the event in row %(row_id)s, marked by the transaction %(transaction)s. Returns nothing of use.
-- Fails as seal_effect does, or with what a deferred constraint finds. P-ONCE.
SELECT {schema}.rehearse_commit(%(transaction)s::text, %(row_id)s::bigint)
