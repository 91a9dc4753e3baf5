"""
Deliver the real input with the installed program: signed by ``send``, received by ``serve``, and all of it again.

The payloads lie in ../shared, beside the clone; where they are missing, these tests fail. Some files share an event id,
for whoever collected them made several out of one event. An id says which event it is, so such files are delivered to
endpoints of their own, and each is an event.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.cli import PAYLOADS, SECRET, Cli, Served

ENDPOINTS = 20
APP = f"""
from __future__ import annotations
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox()

def book(tx, event):
    assert str(event.payload["id"]) == event.id
    tx.conn.execute("INSERT INTO effects (endpoint, event_id) VALUES (%s, %s)", [event.endpoint, event.id])
    tx.emit("Booked", {{"event": event.id}})

for number in range({ENDPOINTS}):
    endpoint = inbox.endpoint(f"stripe-{{number}}", Stripe(secrets={SECRET!r}), mode="inline")
    endpoint.on("invoice.*", "charge.*", "customer.*", "account.external_account.*", "payout.*", "edge.*")(book)
"""


@pytest.fixture
def real(cli: Cli, database: str) -> Cli:
    """The program with a database and an application whose effects can be counted."""
    cli.environment["WEBHOOK_INBOX_DATABASE_URL"] = database
    cli.app(APP, module="real")
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE effects (endpoint text NOT NULL, event_id text NOT NULL)")
    return cli


def files_of(folder: str) -> list[Path]:
    """Every file of the folder; none missing."""
    files = sorted(path for path in (PAYLOADS / folder).iterdir() if path.is_file())
    assert files, f"no payloads in {folder}"
    return files


def rounds(files: Iterable[Path]) -> list[list[Path]]:
    """The files in as few rounds as there are files that share an id; within a round no two share one."""
    rounds: list[list[Path]] = []
    seen: Counter[object] = Counter()
    for file in files:
        number = seen[identity := identity_of(file)]
        seen[identity] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(file)
    return rounds


def identity_of(file: Path) -> object:
    """What makes two files copies of one event, as a reader of the JSON would see it; else the file itself."""
    try:
        event = json.loads(file.read_bytes())
        return str(event.get("account")), str(event["id"])
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return file


def deliver(cli: Cli, served: Served, files: list[list[Path]]) -> list[tuple[int, Path, str]]:
    """Send round after round, each to an endpoint of its own: (endpoint, file, outcome) of each."""

    def send(number: int) -> list[tuple[int, Path, str]]:
        arguments = ["--source", "stripe", "--secret", SECRET, "--concurrent", "4"]
        told = cli.json("send", f"{served.url}/stripe-{number}", *files[number], *arguments)
        assert told["unacknowledged"] == 0, told
        return [(number, Path(each["file"]), outcome(each)) for each in told["files"]]

    with ThreadPoolExecutor(2) as two:
        return [each for done in two.map(send, range(len(files))) for each in done]


def outcome(told: Any) -> str:
    """The outcome of the file's one delivery, which was acknowledged."""
    (delivery,) = told["deliveries"]
    assert delivery["status"] == 200
    return str(delivery["outcome"])


def stored(database: str) -> Counter[tuple[str, bytes, str]]:
    """(endpoint, SHA-256 of the bytes that are kept, state) of every event."""
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT endpoint, sha256(body), state, sha256(body) = body_sha256 FROM webhooks.events"
        ).fetchall()
    assert all(same for *_, same in rows)
    return Counter((endpoint, bytes(digest), state) for endpoint, digest, state, _ in rows)


def effects(database: str) -> tuple[Counter[tuple[str, str]], int]:
    """How often each event took effect, and how many outbox rows there are."""
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT endpoint, event_id FROM effects").fetchall()
        outbox = connection.execute("SELECT count(*) FROM webhooks.outbox").fetchone()
    assert outbox is not None
    return Counter(rows), outbox[0]


@pytest.mark.parametrize("folder", ["events", "events-connect", "events-assembled"])
def test_every_real_event_takes_effect_once_however_often_it_is_sent(
    folder: str, real: Cli, database: str, tally: Counter[str]
) -> None:
    """First all processed or ignored, then all duplicates; what is stored is what was sent (P-RAW, P-ONCE)."""
    files = files_of(f"stripe/{folder}")
    served = real.serve(app="real:inbox")
    first = deliver(real, served, rounds(files))
    again = deliver(real, served, rounds(files))
    assert served.stop() == 0
    heard = Counter(outcome for *_, outcome in first)
    assert set(heard) == {"processed", "ignored"}
    assert sorted(file for _, file, _ in first) == files
    assert Counter(outcome for *_, outcome in again) == {"duplicate": len(files)}
    assert stored(database) == Counter(
        (f"stripe-{number}", hashlib.sha256(file.read_bytes()).digest(), outcome)
        for number, file, outcome in first
    )
    applied, outbox = effects(database)
    assert set(applied.values()) == {1}
    assert len(applied) == outbox == heard["processed"]
    for outcome, number in heard.items():
        tally[f"real events of {folder}: {outcome}, then duplicate"] += number


def test_files_that_share_an_id_are_one_event_of_one_endpoint(real: Cli, database: str) -> None:
    """All real events to one endpoint: one effect for each id, and the first copy of each is the one kept (P-DUP)."""
    files = files_of("stripe/events")
    ids = {identity_of(file) for file in files}
    served = real.serve(app="real:inbox")
    assert len(ids) < len(files)
    first, again = (deliver(real, served, [files]) for _ in range(2))
    assert served.stop() == 0
    taken = [(number, file, outcome) for number, file, outcome in first if outcome != "duplicate"]
    assert {identity_of(file) for _, file, _ in taken} == ids
    assert len(taken) == len(ids)
    assert {outcome for *_, outcome in again} == {"duplicate"}
    assert stored(database) == Counter(
        (f"stripe-{number}", hashlib.sha256(file.read_bytes()).digest(), outcome)
        for number, file, outcome in taken
    )
    assert set(effects(database)[0].values()) <= {1}


#: Authentic bodies that are no event: nothing a parser can read, or without a name.
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n",
    "form": b"payload=%7B%22id%22%3A%22evt_form%22%7D",
    "utf-16": '{"id": "evt_utf_16", "type": "edge.utf_16"}'.encode("utf-16"),
    "binary": bytes(range(256)),
    "two-values": b'{"id": "evt_two", "type": "edge.two"}{"id": "evt_two", "type": "edge.two"}',
    "trailing-comma": b'{"id": "evt_comma", "type": "edge.comma",}',
    "id-is-object": b'{"id": {"$ne": null}, "type": "edge.object"}',
    "id-is-true": b'{"id": true, "type": "edge.true"}',
    "id-is-nul": b'{"id": "evt_\\u0000", "type": "edge.nul"}',
    "type-is-list": b'{"id": "evt_list", "type": ["edge.list"]}',
    "deep-objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "control-character": b'{"id": "evt_\x01", "type": "edge.control"}',
}
MANY = [f"key_{number}" for number in range(10_000)]
#: Bodies that are odd, and events all the same.
ODD: dict[str, bytes] = {
    "id-in-sql": b'{"id": "evt_\'); DROP TABLE effects; --", "type": "edge.sql"}',
    "id-in-markup": b'{"id": "<script>alert(1)</script>", "type": "edge.markup"}',
    "id-in-escapes": b'{"id": "evt_\\u001b[31m\\r\\nx", "type": "edge.escapes"}',
    "number-of-5000-digits": b'{"id": "evt_5000", "type": "edge.digits", "n": ' + b"9" * 5_000 + b"}",
    "exponent": b'{"id": "evt_exponent", "type": "edge.exponent", "n": 1e999999}',
    "ten-thousand-keys": json.dumps(
        {"id": "evt_keys", "type": "edge.keys", **dict.fromkeys(map(str, range(10_000)))}
    ).encode(),
}
#: Of payloads/edge: what is no JSON that every reader understands alike, no object, or has no usable id or type.
EDGE_QUARANTINED = {
    "deep-nesting-100000.json",
    "deep-nesting-500.json",
    "empty-array.json",
    "empty-object.json",
    "id-empty.json",
    "id-missing.json",
    "id-very-long.json",
    "latin1-bytes.json",
    "nan-infinity.json",
    "not-json.txt",
    "top-level-array.json",
    "top-level-null.json",
    "top-level-string.json",
    "truncated.json",
    "type-missing.json",
    "utf8-bom.json",
}


def deliver_all(cli: Cli, files: list[Path]) -> dict[str, str]:
    """Send *files*, and all of them again: the outcome of each by name; the second time all are duplicates."""
    served = cli.serve(app="real:inbox")
    first = deliver(cli, served, rounds(files))
    again = deliver(cli, served, rounds(files))
    assert served.stop() == 0
    assert Counter(outcome for *_, outcome in again) == {"duplicate": len(files)}
    assert "Traceback" not in served.log.read_text()
    return {file.name: outcome for _, file, outcome in first}


def kept(database: str) -> dict[str, str]:
    """The state of each event, by the digest of the bytes that are kept."""
    return {digest.hex(): state for _, digest, state in stored(database)}


def test_every_edge_case_is_identified_or_quarantined_and_never_lost(
    real: Cli, database: str, tally: Counter[str]
) -> None:
    """Each is acknowledged and kept byte for byte; what cannot be read is quarantined under its digest (P-CALM)."""
    files = files_of("edge")
    heard = deliver_all(real, files)
    states = {file.name: kept(database)[hashlib.sha256(file.read_bytes()).hexdigest()] for file in files}
    assert states == heard
    assert set(heard.values()) == {"processed", "quarantined"}
    assert {name for name, state in states.items() if state == "quarantined"} == EDGE_QUARANTINED
    for outcome in heard.values():
        tally[f"edge cases: {outcome}, then duplicate"] += 1


def test_malformed_bodies_are_quarantined_and_odd_ones_processed(
    real: Cli, database: str, tmp_path: Path, tally: Counter[str]
) -> None:
    """Authentic, and no event: kept for a person to look at; an event that only looks dangerous: processed (P-CALM)."""
    folder = tmp_path / "malformed"
    folder.mkdir()
    for name, body in (MALFORMED | ODD).items():
        (folder / name).write_bytes(body)
    heard = deliver_all(real, sorted(folder.iterdir()))
    assert heard == dict.fromkeys(MALFORMED, "quarantined") | dict.fromkeys(ODD, "processed")
    states = kept(database)
    assert {
        name: states[hashlib.sha256(body).hexdigest()] for name, body in (MALFORMED | ODD).items()
    } == heard
    with psycopg.connect(database) as connection:
        ids = connection.execute(
            "SELECT event_id, body_sha256 FROM webhooks.inbox WHERE state = 'quarantined'"
        )
        assert all(event_id == f"sha256:{digest.hex()}" for event_id, digest in ids)
    tally["malformed bodies: quarantined, then duplicate"] += len(MALFORMED)
