"""
What an event costs in things that do not flicker: round trips, row versions, bytes of WAL, calls of Python.

None of these is a time. Each bound is what was counted, with room for a version of PostgreSQL or Python that does a
little more; a change that makes the path longer has to raise it here, and to say why.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import Queue, body_of, signed
from webhook_inbox.drivers import psycopg_async, psycopg_flight
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import Event
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.steps import Step, step_name
from webhook_inbox.telemetry import spans, tracing

EVENTS = 40
#: What every body is filled up to; text that does not compress to nothing.
BODY_BYTES = 3000
HANDLER = "INSERT INTO effects (event_id) VALUES (%s)"


def body(number: int) -> bytes:
    """An event as large as Stripe's invoices are."""
    filler = "".join(f"{number * 7919 + n:08x}" for n in range(BODY_BYTES // 8))
    return body_of(f"evt_{number}", filler=filler)


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was sent together, one entry a round trip, in order."""
    seen: list[tuple[str, ...]] = []

    def counted(conn: Any, steps: Sequence[Step]) -> psycopg_flight.Flight:
        seen.append(tuple(step_name(step) for step in steps))
        return psycopg_flight.fly(conn, steps)

    monkeypatch.setattr(psycopg_async, "fly", counted)
    return seen


def booking(dsn: str, **settings: Any) -> Queue:
    """An inbox whose handler writes one row."""
    box = Queue(dsn, **settings)

    @box.billing.on("invoice.paid")
    async def book(tx: Any, event: Any) -> None:
        await tx.conn.execute(HANDLER, [event.id])

    box.rows("CREATE TABLE IF NOT EXISTS effects (event_id text)")
    return box


async def at_once(box: Queue, count: int, start: int = 0) -> None:
    """Deliver *count* events that arrive together."""
    bodies = [body(number) for number in range(start, start + count)]
    receipts = await asyncio.gather(
        *(
            box.inbox.receive("billing", method="POST", url="/", headers=signed(each), body=each)
            for each in bodies
        )
    )
    assert [receipt.outcome for receipt in receipts] == [Outcome.QUEUED] * count


def told(story: Callable[[], Awaitable[None]]) -> None:
    """Run *story* on a loop of its own."""

    async def run() -> None:
        await story()

    asyncio.run(run())


def test_deliveries_that_arrive_together_cost_two_round_trips(
    database: str, flights: list[tuple[str, ...]]
) -> None:
    """The first that finds nobody writing goes at once; all that arrive meanwhile are one statement and one commit."""

    async def story() -> None:
        box = booking(database)
        await at_once(box, 1)  # opens the connection, and sees the schema
        flights.clear()
        await at_once(box, EVENTS, start=1)
        assert set(flights) == {("begin", "record_events", "commit")}
        assert len(flights) <= 2
        await box.close()

    told(story)


def test_an_inline_event_costs_two_round_trips_and_those_of_its_handler(
    database: str, flights: list[tuple[str, ...]]
) -> None:
    """The record with its mark, then the seal with the commit; one row version, none dead."""

    async def story() -> None:
        box = booking(database, endpoint={"mode": "inline"})
        for number in range(2):
            flights.clear()
            each = body(number)
            receipt = await box.inbox.receive(
                "billing", method="POST", url="/", headers=signed(each), body=each
            )
            assert receipt.outcome is Outcome.PROCESSED
        assert flights == [("begin", "record_event"), ("seal_effect", "commit")]
        await box.close()

    told(story)
    assert written(database, "n_tup_ins", 2) == {"n_tup_ins": 2, "n_tup_upd": 0, "n_tup_del": 0}


def test_an_event_of_a_batch_costs_one_round_trip_and_those_of_its_handler(
    database: str, flights: list[tuple[str, ...]]
) -> None:
    """Marked together, sealed together; between two of them one savepoint is let go and the next one set."""

    async def story() -> None:
        box = booking(database, connections_max=3, batch_events_max=EVENTS)
        await at_once(box, EVENTS)
        flights.clear()
        await box.drain()
        assert box.states() == {"processed": EVENTS}
        await box.close()

    told(story)
    runs = Counter(flight for flight in flights if "settle_set" in flight or "seal_effect" in flight)
    assert runs == {("begin", "settle_set"): 1, ("release", "seal_effect", "commit"): 1}
    between = Counter(flight for flight in flights if "savepoint" in flight)
    assert between == {("savepoint",): 1, ("release", "savepoint"): EVENTS - 1}


def test_a_queued_event_leaves_two_dead_row_versions(database: str) -> None:
    """The claim writes one, the mark one; nothing else touches the row, and no body is written twice."""

    async def story() -> None:
        box = booking(database)
        await at_once(box, EVENTS)
        await box.drain()
        assert box.states() == {"processed": EVENTS}
        await box.close()

    told(story)
    assert written(database, "n_tup_ins", EVENTS) == {
        "n_tup_ins": EVENTS,
        "n_tup_upd": 2 * EVENTS,
        "n_tup_del": 0,
    }


def test_a_queued_event_is_written_to_the_log_little_more_than_its_bytes_are(database: str) -> None:
    """
    Receive, claim and mark, but for what the handler writes: against a table of nothing but the same bytes.

    The goal is 1.6, and this is above it. Each of the two updates of a row is written to every index of the table again
    (PostgreSQL manual, "Heap-Only Tuples"), since the state that changes is in their conditions.
    """
    ours: list[int] = []
    alone: list[int] = []

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        async def look(tx: Any, event: Any) -> None:
            await tx.conn.execute("SELECT %s", [event.id])

        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute("CREATE TABLE alone (id bigint PRIMARY KEY, body bytea NOT NULL)")
            for turn in range(4):  # the first fills pages that are written whole after a checkpoint
                start = turn * EVENTS
                with logged(conn, ours):
                    await at_once(box, EVENTS, start=start)
                    await box.drain()
                with logged(conn, alone):
                    rows = [(start + number, body(start + number)) for number in range(EVENTS)]
                    conn.execute(
                        "INSERT INTO alone SELECT * FROM unnest(%s::bigint[], %s::bytea[])",
                        [[row[0] for row in rows], [row[1] for row in rows]],
                    )
        await box.close()

    told(story)
    ratio = min(ours[1:]) / min(alone[1:])
    assert ratio < WAL_RATIO_MAX, (ratio, ours, alone)


#: Counted on PostgreSQL 15 with lz4: 2.43 with bodies that compress to a half, some 2,100 bytes an event beside them.
WAL_RATIO_MAX = 2.7


def test_a_delivery_costs_a_bounded_number_of_calls(database: str) -> None:
    """From the ASGI message to the answer, in our own code alone: each call is allocations and time."""
    calls: Counter[str] = Counter()
    room = str(Path(psycopg_flight.__file__).parent.parent)

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(room):
            calls[frame.f_code.co_qualname] += 1

    async def story() -> None:
        box = booking(database)
        await at_once(box, EVENTS)
        app = box.inbox.asgi()
        requests = [(body(number), signed(body(number))) for number in range(EVENTS, 2 * EVENTS)]
        sys.setprofile(count)
        try:
            statuses = await asyncio.gather(*(post(app, *request) for request in requests))
        finally:
            sys.setprofile(None)
        assert statuses == [200] * EVENTS
        await box.close()

    told(story)
    assert calls.total() / EVENTS < CALLS_MAX, calls.most_common(15)


#: Counted: 168 for each of 40 deliveries, the flight of all of them included.
CALLS_MAX = 190


def test_spans_that_nobody_wants_cost_a_look_each(database: str) -> None:
    """
    Receive, one run, one emit: where the app has set no tracer provider, each asks once whether it has; no span is
    begun, and one object stands for all of them.
    """
    calls: Counter[str] = Counter()
    rooms = (spans.__file__, tracing.__file__)

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename in rooms:
            calls[frame.f_code.co_qualname] += 1

    async def story() -> None:
        box = Queue(database, endpoint={"mode": "inline"})

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.emit("Booked", {})

        sys.setprofile(count)
        try:
            assert (await box.receive("evt_1"))[0].outcome is Outcome.PROCESSED
        finally:
            sys.setprofile(None)
        await box.close()

    told(story)
    looks = {"receiving": 1, "received": 1, "processing": 1, "carried": 2, "tracer": 4}
    assert calls == Counter(looks)
    event = Event(provider="stripe", endpoint="billing", id="evt_1", type="invoice.paid", body=b"{}")
    assert spans.receiving("billing", Delivery.now("POST", "/", (), b"{}")) is tracing.OFF
    assert spans.processing([(event, 1)], "book") is tracing.OFF


def test_an_app_without_opentelemetry_does_not_load_it() -> None:
    """The extra is the user's choice, and so is the time that its import takes."""
    program = (
        "import sys, webhook_inbox.inbox\n"
        "from webhook_inbox.telemetry import spans, tracing\n"
        "assert spans.receiving('billing', None) is tracing.OFF and tracing.carried() == {}\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def post(app: Any, content: bytes, headers: Any) -> int:
    """Send one delivery to the receiver, and give the status that it answers."""
    sent: list[dict[str, Any]] = []
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers]
    pairs += [(b"host", b"localhost"), (b"content-length", str(len(content)).encode())]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/billing",
        "raw_path": b"/billing",
        "query_string": b"",
        "headers": pairs,
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


@contextmanager
def logged(conn: psycopg.Connection[Any], into: list[int]) -> Iterator[None]:
    """Add the bytes that the server writes to its log while the block runs."""
    before = _lsn(conn)
    yield
    into.append(_lsn(conn) - before)


def _lsn(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    assert row is not None
    return int(row[0])


def written(dsn: str, column: str, expected: int) -> dict[str, int]:
    """How many rows of the inbox were inserted, updated and deleted, once the server has counted *expected*."""
    deadline = time.monotonic() + 30
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            row = conn.execute(
                "SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables "
                "WHERE relid = 'webhooks.inbox'::regclass"
            ).fetchone()
            found = dict(zip(("n_tup_ins", "n_tup_upd", "n_tup_del"), row or (0, 0, 0), strict=True))
            if found[column] == expected or time.monotonic() > deadline:
                return found
            conn.execute("SELECT pg_sleep(0.05)")
