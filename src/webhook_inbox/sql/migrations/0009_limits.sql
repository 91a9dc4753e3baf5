-- The operator's side, once more: of an endpoint's events so many at once, or in a time, over all workers together.
-- Transactional. A release that knows only version 8 goes on working: an endpoint that is limited it takes for one that is paused, and
-- leaves it to the workers that heed the limit.

ALTER TABLE {schema}.endpoints
    ALTER COLUMN paused_at DROP NOT NULL,
    ADD COLUMN concurrency   integer CHECK (concurrency > 0),
    ADD COLUMN rate_events   integer CHECK (rate_events > 0),
    ADD COLUMN rate_seconds  integer CHECK (rate_seconds > 0),
    ADD COLUMN every         interval GENERATED ALWAYS AS (make_interval(secs => rate_seconds::float8 / rate_events)) STORED,
    ADD COLUMN spent_until   timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN limited_at    timestamptz,
    ADD COLUMN limited_by    text        NOT NULL DEFAULT '',
    ADD CONSTRAINT endpoints_rate CHECK ((rate_events IS NULL) = (rate_seconds IS NULL)),
    ADD CONSTRAINT endpoints_limited CHECK ((limited_at IS NULL) = (concurrency IS NULL AND rate_events IS NULL));

COMMENT ON TABLE {schema}.endpoints IS 'Endpoints that are paused or limited for now; receiving goes on.';
COMMENT ON COLUMN {schema}.endpoints.paused_at IS 'Since when no event of it is claimed; null where it is only limited.';
COMMENT ON COLUMN {schema}.endpoints.concurrency IS 'How many of its events may be leased at once; null: any number.';
COMMENT ON COLUMN {schema}.endpoints.rate_events IS 'How many of its events may be claimed in rate_seconds; null: any number.';
COMMENT ON COLUMN {schema}.endpoints.every IS 'What one event takes of the time that its rate gives.';
COMMENT ON COLUMN {schema}.endpoints.spent_until IS 'The time that its rate gives is spent up to there.';
