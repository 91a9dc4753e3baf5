-- Look through the events once for what 0007 has left unlooked at; a step of its own, since only so nobody waits while that is done.
-- Transactional. A release that knows only version 6 goes on working: nothing is changed.

ALTER TABLE {schema}.inbox VALIDATE CONSTRAINT inbox_origin;
