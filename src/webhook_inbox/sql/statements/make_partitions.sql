-- Make the day partitions of the bodies, from today to %(days_ahead)s days ahead. Returns (number made,).
-- Takes ACCESS EXCLUSIVE on bodies and its default partition while it makes one: run by migrate, not in the receive path.
SELECT {schema}.make_body_partitions(%(days_ahead)s::integer)
