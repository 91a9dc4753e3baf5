-- How far forgetting has come, which event has raised a version, and when a walk through a provider's list last got on.
-- Transactional. A release that knows only version 9 goes on working: it leaves what is new here empty, and calls the function as before.

CREATE TABLE {schema}.prunes (
    endpoint     text        NOT NULL,
    stage        text        NOT NULL,
    reached_at   timestamptz NOT NULL,
    complete_at  timestamptz NOT NULL,
    PRIMARY KEY (endpoint, stage)
);

COMMENT ON TABLE {schema}.prunes IS 'Up to which time of receiving an endpoint''s bodies and events were looked through for what is old; the next walk begins there.';
COMMENT ON COLUMN {schema}.prunes.complete_at IS 'When all there is was last looked through, for what could not go when it came of age.';

ALTER TABLE {schema}.versions ADD COLUMN inbox_id bigint;

COMMENT ON COLUMN {schema}.versions.inbox_id IS 'The event that raised it last, and so has left the key here.';

ALTER TABLE {schema}.reconciles ADD COLUMN noted_at timestamptz;

COMMENT ON COLUMN {schema}.reconciles.noted_at IS 'When the cursor was written down: older than an hour, it may be none any more.';

-- As before, but for the bound: each day is a table, and whoever may call this shall not fill the catalog with them.
CREATE OR REPLACE FUNCTION {schema}.make_body_partitions(days_ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = {schema}, pg_temp SET DateStyle = 'ISO, YMD' SET TimeZone = 'UTC' AS $webhook_inbox$
DECLARE
    day date;
    partition text;
    made integer := 0;
BEGIN
    IF (days_ahead BETWEEN 0 AND 366) IS NOT TRUE THEN
        RAISE EXCEPTION 'make_body_partitions: from 0 to 366 days can be made ahead, not %', coalesce(days_ahead::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A worker makes them day by day.';
    END IF;
    FOR day IN SELECT now()::date + n FROM generate_series(0, days_ahead) n LOOP
        partition := 'bodies_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(partition) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM {schema}.bodies_default WHERE received_at >= day AND received_at < day + 1);
        EXECUTE format('CREATE TABLE %I.%I (LIKE bodies INCLUDING ALL)', current_schema(), partition);
        EXECUTE format('ALTER TABLE bodies ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       partition, day::timestamptz, (day + 1)::timestamptz);
        made := made + 1;
    END LOOP;
    RETURN made;
END $webhook_inbox$;
