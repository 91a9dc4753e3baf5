"""Every real payload reaches the database through its source over HTTP: identified, typed, and stored byte for byte."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.deliveries import PAYLOADS
from tests.payload_events import FAMILIES, files
from tests.source_examples import JSON
from webhook_inbox import Inbox
from webhook_inbox.testing.signers import SIGNERS, Draft

EDGE = sorted((PAYLOADS / "edge").iterdir())
# Files that are no event of their provider: resources, lists, and what an API answers.
REST = [
    *files("stripe/resources"),
    PAYLOADS / "stripe/openapi-fixtures3.json",
    *files("paddle/events"),  # whose items are events
    *files("paddle/notifications"),
    *files("paddle/notificationlogs"),
]
# Files that are one, or the part of one that matters.
EVENTS = [
    *files("github"),
    *files("stripe/events"),
    *files("stripe/events-connect"),
    *files("stripe/events-assembled"),
    PAYLOADS / "paddle/webhook_payload.json",
    *files("paddle/notification"),
    *files("paddle/entities"),
    *files("slack"),
    *files("shopify"),
]
# Samples of these show some events in several states, under one id.
DISTINCT = {"stripe": 43, "paddle": 69}


@pytest.fixture
def inbox(database: str) -> Inbox:
    """An inbox with an endpoint for each family of payloads."""
    made = Inbox(database, connections_max=2, body_bytes_max=4 * 1_048_576)
    for family, (_, make, secret, *_) in FAMILIES.items():
        made.endpoint(family.replace(" ", "-"), make(secret))
    return made


async def post_all(inbox: Inbox, sent: list[tuple[str, Draft, tuple[str, str]]]) -> list[httpx.Response]:
    """Deliver each (family, draft, content type), one after the other."""
    transport = httpx.ASGITransport(app=inbox.asgi())
    async with (
        inbox.running(),
        httpx.AsyncClient(transport=transport, base_url="http://inbox.test") as client,
    ):
        return [
            await client.post(
                f"/{family.replace(' ', '-')}",
                headers=[content_type, *SIGNERS[FAMILIES[family][0]](draft).headers],
                content=draft.body,
            )
            for family, draft, content_type in sent
        ]


def draft(family: str, body: bytes, event_id: str, event_type: str) -> Draft:
    """Sign now."""
    secret = FAMILIES[family][2]
    return Draft(
        body=body, secret=secret, event_id=event_id, event_type=event_type, timestamp=int(time.time())
    )


def stored(database: str) -> list[tuple[str, str, str, bytes]]:
    """Give provider, type, state and bytes of all that was recorded, in its order."""
    with psycopg.connect(database) as connection:
        found: list[Any] = connection.execute(
            "SELECT provider, event_type, state, body FROM webhooks.events ORDER BY id"
        ).fetchall()
    return found


def digests(bodies: list[bytes]) -> Counter[str]:
    """Count bodies by their SHA-256."""
    return Counter(hashlib.sha256(body).hexdigest() for body in bodies)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_event_is_stored_as_it_was_sent(inbox: Inbox, database: str, family: str) -> None:
    """P-RAW: under its provider's name for it, its bytes unchanged; without a handler it is recorded as ignored."""
    events = [
        (body, event_type, f"guid-{position}")
        for position, (_, body, _, event_type) in enumerate(FAMILIES[family][3]())
    ]
    content_type = FAMILIES[family][4]
    sent = [(family, draft(family, body, guid, kind), content_type) for body, kind, guid in events]
    answers = asyncio.run(post_all(inbox, sent))
    assert Counter(answer.status_code for answer in answers) == {200: len(events)}
    recorded = [answer.json()["outcome"] for answer in answers]
    rows = stored(database)
    assert set(recorded) <= {"ignored", "duplicate"}
    assert len(rows) == recorded.count("ignored")
    assert len(rows) == DISTINCT.get(family, len(events))
    assert {row[2] for row in rows} == {"ignored"}
    kept = [body for (body, _, _), outcome in zip(events, recorded, strict=True) if outcome == "ignored"]
    assert digests([bytes(row[3]) for row in rows]) == digests(kept)
    kinds = [kind for (_, kind, _), outcome in zip(events, recorded, strict=True) if outcome == "ignored"]
    assert [row[1] for row in rows] == kinds


@pytest.mark.parametrize("path", [*EDGE, *REST], ids=lambda path: path.name)
def test_what_is_no_event_is_kept_and_shown_never_refused(inbox: Inbox, database: str, path: Path) -> None:
    """P-CALM: signed, so it is identified or quarantined by every source, with its bytes; never lost, never a 5xx."""
    body = path.read_bytes()
    sent = [(family, draft(family, body, "guid-edge", "edge"), FAMILIES[family][4]) for family in FAMILIES]
    answers = asyncio.run(post_all(inbox, sent))
    assert [answer.status_code for answer in answers] == [200] * len(FAMILIES)
    outcomes = {answer.json()["outcome"] for answer in answers}
    assert outcomes <= {"ignored", "quarantined"}
    rows = stored(database)
    assert len(rows) == len(FAMILIES)
    assert digests([bytes(row[3]) for row in rows]) == digests([body] * len(FAMILIES))


def test_samples_without_an_id_are_kept_and_shown(inbox: Inbox, database: str) -> None:
    """P-CALM: Slack's are published with every text blank; as they are, each is authentic, and names no event."""
    bodies = [path.read_bytes() for path in files("slack/events")]
    sent = [("slack events", draft("slack events", body, "", ""), JSON) for body in bodies]
    answers = asyncio.run(post_all(inbox, sent))
    assert Counter(answer.status_code for answer in answers) == {200: 96}
    assert {answer.json()["outcome"] for answer in answers} <= {"quarantined", "duplicate"}
    rows = stored(database)
    assert {row[2] for row in rows} == {"quarantined"}
    assert digests([bytes(row[3]) for row in rows]).keys() == digests(bodies).keys()


def test_no_file_is_left_out() -> None:
    """Each is an event of its provider, or kept as what it is; as many in each folder as SOURCES.md says."""
    found = [path for path in PAYLOADS.rglob("*") if path.is_file() and path.name != "SOURCES.md"]
    used = [*EVENTS, *EDGE, *REST]
    assert sorted(used) == sorted(found)
    assert Counter(path.relative_to(PAYLOADS).parts[0] for path in used) == {
        "edge": 25,
        "github": 272,
        "paddle": 64,
        "shopify": 23,
        "slack": 105,
        "stripe": 131,
    }
    assert (len(EVENTS), len(EDGE), len(REST)) == (562, 25, 33)
