-- Count the messages that nothing sends by itself: (dead, unrouted); a message counts at each destination for which it is dead.
-- Locks nothing. Indexes: sends_dead, outbox_unrouted.
SELECT (SELECT count(*) FROM {schema}.sends WHERE state = 'dead'),
       (SELECT count(*) FROM {schema}.outbox WHERE state = 'unrouted')
