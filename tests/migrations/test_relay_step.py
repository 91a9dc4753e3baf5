"""The outbox of the release before the relay is taken over as it is, and that release goes on writing into it."""

from __future__ import annotations

import psycopg

from tests.fixtures.outbox import Outbox
from tests.fixtures.postgres import SCHEMA
from webhook_inbox.sql.migrations import upgrade_statement
from webhook_inbox.testing.databases import apply_migrations

#: As that release emits.
EARLIER = """
INSERT INTO webhooks.outbox (id, aggregate_type, aggregate_id, event_type, payload, inbox_id)
VALUES (gen_random_uuid(), 'Invoice', 'in_1', %s, '{}', 1)
RETURNING id::text
"""


def test_what_was_written_before_is_sent_and_what_others_have_published_is_not(empty_database: str) -> None:
    """P-OUT: in the order of writing; a relay of the user's own may have published some; the old INSERT goes on."""
    ids = []
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute(upgrade_statement(SCHEMA, to=2).encode())
        for event_type in ("First", "Published", "Second"):
            row = conn.execute(EARLIER.encode(), [event_type]).fetchone()
            assert row is not None
            ids.append(row[0])
        conn.execute("UPDATE webhooks.outbox SET published_at = now() WHERE event_type = 'Published'")
        apply_migrations(empty_database)
        row = conn.execute(EARLIER.encode(), ["Third"]).fetchone()
        assert row is not None
        ids.append(row[0])
    box = Outbox(empty_database)
    assert box.route() == {"mail": 3}
    claims = box.claim(box.register())
    assert [each.message.event_type for each in claims] == ["First", "Second", "Third"]
    box.settle(claims)
    assert sorted(box.published()) == sorted(ids)
