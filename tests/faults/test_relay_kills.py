"""
Kill the relay at every fault point, and find every committed message at every destination.

The points are enumerated, not chosen: one run in peace passes them and records them. Then a relay is killed by SIGKILL
at each, twice, with new messages to send each time, of which some are rolled back. What a dead relay held stays held
until its lease ends by the server's clock; the next one takes it back and goes on. The plans are the same whatever the
destination is: all of their points are tried with one, and those that differ with the others; each with each, and as
often as it says, where WEBHOOK_INBOX_TEST_KILLS is set.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.faults.conftest import EACH_WITH_EACH
from tests.faults.relay_app import RelaySetup
from tests.faults.server import Nursery
from tests.faults.yields import yields_of
from tests.fixtures.outbox import Outbox
from webhook_inbox.protocol import relay
from webhook_inbox.testing.points import Passing

KILLS = int(os.environ.get("WEBHOOK_INBOX_TEST_KILLS", "2"))
#: Where destinations differ: each one in the sending; two, where one has confirmed and the other has not.
DIFFERING = {"call": "", "http": "send.", "call,http": ("send.", "settle_messages.")}
LEASE_SECONDS = 600.0
BATCH = 4
#: What a relay has under way at one of these destinations, at most: as much can go out again when it dies.
IN_HAND = 10
EXPIRE = "UPDATE webhooks.workers SET lease_ends_at = clock_timestamp() - interval '1 s'"
#: What a relay does that drains an outbox in which others have left something, and old messages lie.
PLANS = {
    "route_messages",
    "reroute_messages",
    "claim_messages",
    "settle_messages",
    "return_messages",
    "prune_outbox",
    "register",
    "send",
}


class Hooks:
    """Hold the URL of a receiver, and the ids that it was posted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ids: list[str] = []


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    """A receiver on loopback that notes an id, then confirms it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            found.ids.append(self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A relay that dies breaks its connections."""

    with Server(("127.0.0.1", 0), Handler) as server:
        found = Hooks(f"http://127.0.0.1:{server.server_port}/")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join(10)


class RelayBench:
    """Hold one test's outbox, the relays that are started on it, and what was committed."""

    def __init__(self, nursery: Nursery, dsn: str, room: Path, hooks: Hooks, kinds: Sequence[str]) -> None:
        self.box = Outbox(dsn)
        self.committed: list[str] = []
        self._server = nursery.servers[0]
        self._room = room
        self._hooks = hooks
        self._kinds = tuple(kinds)
        self._chance = random.Random(1)

    def write(self) -> None:
        """Commit ``BATCH`` messages in transactions of their own, and roll as many others back."""
        with psycopg.connect(self.box.dsn) as conn:
            for number in range(2 * BATCH):
                kept = number % 2 == 0
                statement = (
                    "INSERT INTO webhooks.outbox (event_type, payload, aggregate_id) "
                    "VALUES (%s, '{}', %s) RETURNING id::text"
                )
                row = conn.execute(statement, ["Kept" if kept else "Undone", str(number)]).fetchone()
                assert row is not None
                (conn.commit if kept else conn.rollback)()
                self.committed.extend([row[0]] if kept else [])

    def setup(self, **given: Any) -> RelaySetup:
        """Say how the next relay is set up."""
        settings = {"lease_seconds": LEASE_SECONDS, "poll_seconds": 0.05, "outbox_days": 1e-9}
        return RelaySetup(
            self.box.dsn,
            str(self._room / "witness"),
            settings=settings,
            room=str(self._room),
            url=self._hooks.url,
            kinds=self._kinds,
            **given,
        )

    def die_at(self, point: str) -> None:
        """Start a relay with something to do, and have it die at *point*."""
        self.write()
        passing = Passing(point)
        self._server.start(self.setup(die_at=str(passing)))
        assert self._server.witnessed(self._server.death(), passing), point
        self.box.rows(EXPIRE)
        self.box.make_due()

    def in_peace(self) -> dict[str, Any]:
        """Have a relay send what is due; what it tells."""
        self._server.start(self.setup(record=True))
        pid = self._server.pid
        assert self._server.death().status == 0
        told: dict[str, Any] = json.loads((self._room / f"told-{pid}").read_text())
        return told

    def arrived(self, kind: str) -> Counter[str]:
        """How often each id has reached *kind*."""
        if kind == "http":
            return Counter(self._hooks.ids)
        return Counter((self._room / "called").read_text().split())

    def close(self) -> None:
        """End what lives."""
        self._server.close()


@pytest.fixture(params=list(DIFFERING))
def relays(
    request: pytest.FixtureRequest, relay_nursery: Nursery, database: str, tmp_path: Path, hooks: Hooks
) -> Iterator[RelayBench]:
    """A bench whose relays have these destinations."""
    bench = RelayBench(relay_nursery, database, tmp_path, hooks, request.param.split(","))
    try:
        yield bench
    finally:
        bench.close()


@pytest.mark.timeout(60 + 30 * KILLS)
def test_a_relay_killed_at_every_point_leaves_no_message_behind(
    relays: RelayBench, request: pytest.FixtureRequest, tally: Counter[str]
) -> None:
    """P-OUT: each committed message arrives everywhere, none of a rolled-back transaction; copies have the same id."""
    param = request.node.callspec.params["relays"]
    kinds = param.split(",")
    relays.write()
    told = relays.in_peace()
    assert {point.split(".")[0] for point in told["points"]} >= PLANS
    differing = "" if EACH_WITH_EACH and len(kinds) == 1 else DIFFERING[param]
    points = [each for each in told["points"] if each.startswith(differing)]
    assert points
    for point in points:
        for _ in range(KILLS):
            relays.die_at(point)
    relays.box.take_back()
    relays.box.make_due()  # what relays died under waits for longer each time
    relays.in_peace()
    deaths = len(points) * KILLS
    for kind in kinds:
        arrived = relays.arrived(kind)
        assert set(arrived) == set(relays.committed), kind
        copies = arrived.total() - len(arrived)
        assert copies <= deaths * IN_HAND
        tally[f"copies under the same id by {kind} relays that were killed"] += copies
    assert set(relays.box.sends()) <= {"sent"}
    assert relays.box.rows("SELECT id FROM webhooks.outbox WHERE published_at IS NULL") == []
    tally["kills of relays"] += deaths


def test_no_step_of_a_relay_is_without_a_point(
    relay_nursery: Nursery, database: str, tmp_path: Path, hooks: Hooks
) -> None:
    """A run that sends, fails, and takes back asks for a step at every ``yield`` of the plans."""
    bench = RelayBench(relay_nursery, database, tmp_path, hooks, ["call", "http"])
    bench.write()
    walked = {(place[0], place[1], place[2]) for place in bench.in_peace()["yields"]}
    url, hooks.url = hooks.url, "http://127.0.0.1:9/"
    bench.write()
    walked |= {(place[0], place[1], place[2]) for place in bench.in_peace()["yields"]}
    hooks.url = url
    places = yields_of(relay)
    assert len(places) > 15
    assert {place[1:] for place in places - walked} == set()


def test_what_a_killed_relay_held_goes_out_when_its_lease_has_ended(
    relay_nursery: Nursery, database: str, tmp_path: Path, hooks: Hooks
) -> None:
    """P-CLOCK: and not before, by the server's clock."""
    bench = RelayBench(relay_nursery, database, tmp_path, hooks, ["call"])
    bench.write()
    passing = Passing("send.after")
    server = relay_nursery.servers[0]
    server.start(bench.setup(die_at=str(passing)))
    assert server.witnessed(server.death(), passing)
    bench.in_peace()
    assert "leased" in bench.box.sends()
    bench.box.rows(EXPIRE)
    bench.in_peace()
    assert set(bench.arrived("call")) == set(bench.committed)
