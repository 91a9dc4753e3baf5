-- Keep another body that came under a known id, as evidence; the same bytes are kept once.
INSERT INTO {schema}.conflicts (inbox_id, body_sha256, body, headers)
VALUES (%(inbox_id)s, %(body_sha256)s::bytea, %(body)s::bytea, %(headers)s::jsonb)
ON CONFLICT (inbox_id, body_sha256) DO NOTHING
RETURNING inbox_id
