-- Make the day partitions of the bodies, from today to %(days_ahead)s days ahead. Returns (number made,).
-- Takes SHARE UPDATE EXCLUSIVE on bodies, which no receiver waits for, and ACCESS EXCLUSIVE on its default partition, which only
-- readers of bodies and receivers without a partition for today do.
SELECT {schema}.make_body_partitions(%(days_ahead)s::integer)
