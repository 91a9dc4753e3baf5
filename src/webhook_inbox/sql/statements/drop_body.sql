-- Drop the bytes of an event whose endpoint keeps only the digest, in the transaction that processes it. Returns (id,), or no row.
-- %(received_at)s leads to the one partition that has it.
DELETE FROM {schema}.bodies WHERE received_at = %(received_at)s::timestamptz AND id = %(id)s RETURNING id
