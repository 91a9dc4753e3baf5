CREATE TABLE webhooks.bytes_alone (id bigint PRIMARY KEY, body bytea NOT NULL);
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE webhooks.bytes_alone ALTER COLUMN body SET COMPRESSION lz4;
    ELSE
        ALTER TABLE webhooks.bytes_alone ALTER COLUMN body SET STORAGE EXTERNAL;
    END IF;
END $$;
