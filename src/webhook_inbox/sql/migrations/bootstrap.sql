-- The schema and the table that says what was applied to it. Run under the migration lock, before the first step.
-- CREATE SCHEMA IF NOT EXISTS would ask for CREATE on the database even where somebody who has it made the schema beforehand.
DO $webhook_inbox$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = {schema_text}) THEN
        CREATE SCHEMA {schema};
    END IF;
END $webhook_inbox$;

CREATE TABLE IF NOT EXISTS {schema}.migrations (
    version      integer     PRIMARY KEY,
    name         text        NOT NULL,
    serves_from  integer     NOT NULL,
    applied_at   timestamptz NOT NULL DEFAULT now()
);
