-- Drop the bodies of the oldest day that ended more than %(days)s days ago, as a whole; what must stay is moved to the default partition.
-- %(survivors_max)s: where more must stay, the day is left to prune_bodies. Returns (the partition's name; null where there is none).
-- Takes ACCESS EXCLUSIVE on bodies, for as long as it takes to move those few; gives up where it does not come at once (55P03).
-- P-KEEP, P-CLOCK.
SELECT {schema}.drop_body_partition(now() - %(days)s::float8 * interval '1 day', %(survivors_max)s::integer)
