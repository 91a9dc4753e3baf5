-- The schema and the table that says what was applied to it. Run under the migration lock, before the first step.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {schema}.migrations (
    version      integer     PRIMARY KEY,
    name         text        NOT NULL,
    serves_from  integer     NOT NULL,
    applied_at   timestamptz NOT NULL DEFAULT now()
);
