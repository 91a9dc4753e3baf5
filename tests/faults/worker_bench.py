"""Hold what a worker test works with: a database that keeps book, workers to be started on it, and a journal."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.invariants import await_no_transaction, check_expected, one_row
from tests.faults.paths import Expected
from tests.faults.sender import Letter, stripe_headers
from tests.faults.server import Death, Nursery, Server
from tests.faults.worker_app import WorkerSetup, make_worker_inbox
from tests.faults.worker_handlers import DEED, STOP
from webhook_inbox import Inbox

#: Far longer than any test: what a dead worker held stays held until the test says that its lease has ended.
LEASE_SECONDS = 600.0
ROUNDS_MAX = 20
_EXPIRE = "UPDATE webhooks.workers SET lease_ends_at = clock_timestamp() - interval '1 second'"
_DUE = "UPDATE webhooks.inbox SET available_at = clock_timestamp() WHERE state IN ('waiting', 'retrying')"
_PARK = """
UPDATE webhooks.inbox SET available_at = available_at + interval '1 day' WHERE state IN ('waiting', 'retrying')
"""
_HOLD = "UPDATE webhooks.workers SET lease_ends_at = clock_timestamp() + interval '1 hour'"
_OPEN = "SELECT count(*) FROM webhooks.inbox WHERE state IN ('waiting', 'leased', 'retrying')"
#: Every claim has a token of its own, and costs one attempt unless that was given back.
_MISCOUNTED = """
SELECT event_id, endpoint, claims, attempts, t.tokens, g.given_back FROM webhooks.inbox i
CROSS JOIN LATERAL (SELECT count(*) AS tokens FROM tokens WHERE id = i.id) t
CROSS JOIN LATERAL (SELECT count(*) AS given_back FROM given_back WHERE id = i.id) g
WHERE i.claims <> t.tokens OR i.claims > 0 AND i.attempts <> t.tokens - g.given_back
"""
_GIVEN_BACK = """
SELECT i.event_id, g.attempts + 1, count(*) FROM given_back g JOIN webhooks.inbox i ON i.id = g.id GROUP BY 1, 2
"""


@dataclass
class WorkerBench:
    """
    Hold one test's database, its workers and what their handlers wrote down.

    Attributes:
        dsn: A database with our schema, the handlers' tables and their triggers.
        room: A folder of the test's own.
        settings: Of every inbox made here.
        endpoints: Those that workers have, as ``shape-kind``.
        expected: What must be true in the end of everything that was delivered.
    """

    nursery: Nursery
    dsn: str
    room: Path
    settings: dict[str, Any] = field(default_factory=dict)
    endpoints: tuple[str, ...] = ()
    expected: list[Expected] = field(default_factory=list)

    def setup(self, number: int = 0, **given: Any) -> WorkerSetup:
        """Say how worker *number* is set up."""
        settings = {"lease_seconds": LEASE_SECONDS, **self.settings, **given.pop("settings", {})}
        more = {"room": str(self.room), "endpoints": self.endpoints, **given}
        return WorkerSetup(
            more.pop("dsn", self.dsn), str(self.room / f"witness-{number}"), settings=settings, **more
        )

    @cached_property
    def inbox(self) -> Inbox:
        """The inbox in this process, for deliveries without HTTP."""
        return make_worker_inbox(self.setup())

    @cached_property
    def connection(self) -> psycopg.Connection[Any]:
        """A session of the test's own, in autocommit."""
        return psycopg.connect(self.dsn, autocommit=True)

    def close(self) -> None:
        """End what lives, and close what was opened."""
        for server in self.nursery.servers:
            server.close()
        if "inbox" in self.__dict__:
            self.inbox.close()
        if "connection" in self.__dict__:
            self.connection.close()

    def letter(self, endpoint: str, event_id: str, event_type: str, **data: object) -> Letter:
        """Make an event for *endpoint*."""
        event = {"id": event_id, "object": "event", "type": event_type, "livemode": False, **data}
        return Letter(event_id, f"/{endpoint}", json.dumps(event).encode(), sign=stripe_headers)

    def expect(
        self, letter: Letter, state: str = "processed", *, applied: int | None = None, reviews: int = 0
    ) -> None:
        """Expect *letter* to end in *state*."""
        times = int(state == "processed") if applied is None else applied
        kept = not (state == "processed" and letter.path.startswith("/digest-"))
        self.expected.append(
            Expected(letter.event, state, letter.body, applied=times, reviews=reviews, kept=kept)
        )

    def receive(self, letter: Letter) -> None:
        """Have *letter* recorded for the worker, in this process."""
        headers = tuple(letter.sign(letter.body).items())
        receipt = self.inbox.receive_sync(letter.path.strip("/"), headers=headers, body=letter.body)
        assert receipt.status == 200, receipt

    @contextmanager
    def workers(self, count: int = 1, **given: Any) -> Iterator[list[Server]]:
        """Start workers and end them."""
        servers = self.nursery.servers[:count]
        try:
            for number, server in enumerate(servers):
                server.start(self.setup(number, **given))
            yield servers
        finally:
            for server in servers:
                server.close()

    def worker(self, number: int = 0, **given: Any) -> tuple[Server, Death]:
        """Run one worker until it ends, whatever ends it."""
        server = self.nursery.servers[number]
        server.start(self.setup(number, **given))
        return server, server.death()

    def drained(self, number: int = 0, **given: Any) -> Mapping[str, Any]:
        """Run one worker until nothing is due; give what it told of its points and outcomes."""
        _, death = self.worker(number, **given)
        assert (death.signal, death.status) == (0, 0), f"{death}: {self.log_of(death.pid)}"
        told: Mapping[str, Any] = json.loads((self.room / f"told-{death.pid}").read_text())
        return told

    def park(self) -> None:
        """Take all that is not settled out of the next worker's sight: what nobody holds, and what the dead hold."""
        self.connection.execute(_PARK)
        self.connection.execute(_HOLD)

    def expire(self) -> None:
        """Let every lease have ended, by the server's clock (P-CLOCK)."""
        self.connection.execute(_EXPIRE)

    def work_off(self) -> None:
        """Let leases end and delays pass, and work until all is settled; what is done once is not done any more."""
        for event in self.expected:
            for deed in (DEED, STOP):
                (self.room / f"{event.event_id}.{deed}").touch()
        for _ in range(ROUNDS_MAX):
            self.expire()
            self.connection.execute(_DUE)
            self.drained()
            if one_row(self.connection, _OPEN) == (0,):
                return
        raise AssertionError(f"not settled in {ROUNDS_MAX} rounds")

    def unsettled(self) -> int:
        """How many events are not settled."""
        return int(one_row(self.connection, _OPEN)[0])

    def runs(self) -> Counter[tuple[str, int]]:
        """How often a handler was begun for each event and attempt; by the journal, which is no table."""
        return Counter((run["event"], run["attempt"]) for run in self.journal())

    def journal(self) -> list[dict[str, Any]]:
        """Every run of a handler, in order."""
        journal = self.room / "journal"
        if not journal.exists():
            return []
        return [json.loads(line) for line in journal.read_text().splitlines()]

    def check(self, *, again_in_one_claim: bool = False, uncounted: Collection[str] = ()) -> None:
        """
        Check every promise: one effect and one outbox row each, none lost, attempts counted once a run.

        Args:
            again_in_one_claim: Whether a handler may begin a second time under one claim, because its batch fell apart.
            uncounted: Events that may be begun more often: at each delivery inline, in each half of a set that failed.
        """
        with psycopg.connect(self.dsn) as connection:
            await_no_transaction(connection)
            wrong = check_expected(connection, self.expected)
            wrong += [f"miscounted: {row}" for row in connection.execute(_MISCOUNTED)]
            again = {(event, attempt): n for event, attempt, n in connection.execute(_GIVEN_BACK)}
        for run, times in self.runs().items():
            if run[0] not in uncounted and times > (1 + again.get(run, 0)) * (2 if again_in_one_claim else 1):
                wrong.append(f"{run[0]}: attempt {run[1]} was begun {times} times")
        assert not wrong, f"{len(wrong)} wrong: {json.dumps(wrong[:12], indent=1)}"

    def log_of(self, pid: int, *, since: int = 0) -> str:
        """What the worker *pid* has logged."""
        with self.nursery.log.open("rb") as log:
            log.seek(since)
            text = log.read().decode(errors="replace")
        mine, found = False, []
        for line in text.splitlines():
            if not line.startswith((" ", "\t")):
                mine = line.startswith(f"{pid} ")
            if mine:
                found.append(line)
        return "\n".join(found)

    def started(self, letter: Letter, *, seconds: float = 20.0) -> None:
        """Wait until the handler of *letter* is inside its transaction, and waits."""
        self.await_file(f"{letter.event}.in", seconds=seconds)

    def go(self, letter: Letter) -> None:
        """Let that handler go on."""
        (self.room / f"{letter.event}.go").touch()

    def await_file(self, name: str, *, seconds: float = 20.0) -> None:
        """Wait for a file that a worker leaves."""
        deadline = time.monotonic() + seconds
        while not (self.room / name).exists():
            assert time.monotonic() < deadline, (
                f"not within {seconds} s: {name} in {sorted(self.room.iterdir())}"
            )
            time.sleep(0.005)

    def on(self, *endpoints: str, **settings: Any) -> WorkerBench:
        """Work for these endpoints alone, with these settings; before anything is delivered."""
        assert "inbox" not in self.__dict__, "the bench has an inbox already"
        self.endpoints, self.settings = endpoints, {**self.settings, **settings}
        return self
