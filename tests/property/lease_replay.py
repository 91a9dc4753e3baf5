"""
Make the moves of the lease model on a real database: each by the plan that a worker runs, and each worker on a
connection of its own, whose transaction stays open from the move that begins it to the one that ends it.

A tick of the model's clock is a minute: what is stored of a lease is set back by as much, and nothing waits. What a
worker trusts it keeps in its own memory, so that to ask and to hear change nothing here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.property.lease_model import BEGIN, LEASE, Move, Row, Rules, State, moves
from tests.schedules.stage import (
    PROCESSING,
    SQL,
    Connection,
    claiming,
    clear,
    failing,
    recorded,
    rows,
    run,
)
from webhook_inbox.errors import HandlerFailedError, InboxError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.protocol.handlers import Handler, Handlers
from webhook_inbox.protocol.lease import reap, register, renew
from webhook_inbox.protocol.process import RunOutcome, Work, process

TICK_SECONDS = 60.0
#: Deaths are the model's business; none of them kills the event here.
_CRASHES_MAX = 1_000
#: A lease alone grows older: by the heartbeat the reaper tells whether the server itself was started since.
_PASS = f"UPDATE webhooks.workers SET lease_ends_at = lease_ends_at - interval '{TICK_SECONDS} s'"
_END_SESSION = "SELECT pg_terminate_backend(%s, 10000)"
_SECONDS_MAX = 20.0
_EVENT = "SELECT state, claims, attempts, worker_id FROM webhooks.inbox"
_LEASES = "SELECT id, lease_ends_at > clock_timestamp() AS holds FROM webhooks.workers"
_EFFECTS = "SELECT event_id FROM effects"


class Run:
    """
    A run of a claim, on a thread: it stands still in its handler, with its transaction open, until it is let go.

    Args:
        conn: The worker's, which nobody else uses meanwhile.
    """

    def __init__(self, pool: ThreadPoolExecutor, conn: Connection, claim: Claim) -> None:
        self.pid = conn.info.backend_pid
        self._entered, self._go = threading.Event(), threading.Event()
        plan = process(Work(claim, self._handler()), PROCESSING)
        self._ran: Future[RunOutcome] = pool.submit(run, conn, plan)
        self._ran.add_done_callback(lambda _: self._entered.set())
        assert self._entered.wait(_SECONDS_MAX), "neither does it work nor has it ended"

    def _handler(self) -> tuple[Handler, ...]:
        handlers = Handlers()

        @handlers.on("*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
            self._entered.set()
            assert self._go.wait(_SECONDS_MAX), "nobody lets it go"

        return handlers.matching("invoice.paid")

    @property
    def working(self) -> bool:
        """Whether it stands in its handler."""
        return not self._ran.done()

    def end(self) -> RunOutcome | InboxError:
        """Let it go, and say how it ended."""
        self._go.set()
        wait([self._ran], _SECONDS_MAX)
        error = self._ran.exception(0)
        if error is None:
            return self._ran.result()
        assert isinstance(error, InboxError), error
        return error


@dataclass
class Slot:
    """One of the two workers: its connection, and the claim and the run that it has, if any."""

    conn: Connection
    claim: Claim | None = None
    run: Run | None = None


@dataclass
class Stage:
    """
    The event and its workers in the database, in the state that the model begins with.

    Attributes:
        conn: The clock's, the reaper's, and the one that looks.
        incarnations: The real ids, in the model's order.
        runs: How often a handler was begun.
    """

    dsn: str
    conn: Connection
    pool: ThreadPoolExecutor
    slots: list[Slot]
    incarnations: list[WorkerId] = field(default_factory=list)
    runs: int = 0

    def begin(self) -> None:
        """Empty the tables, record the event and register the workers that the model begins with."""
        clear(self.conn)
        recorded(self.conn, "evt_1")
        for _ in BEGIN.workers:
            self._register()

    def make(self, move: Move, before: State) -> None:
        """Do for real what *move* is, in the state *before* it."""
        match move.name, move.slot:
            case "tick", _:
                self.conn.execute(_PASS.encode())
            case "reap", _:
                assert len(run(self.conn, reap(_CRASHES_MAX, SQL))) == 1
            case "ask" | "hear", _:
                pass
            case name, int(slot):
                incarnation = before.workers[slot].incarnation
                worker = None if incarnation is None else self.incarnations[incarnation]
                self._work(name, self.slots[slot], worker)
            case _:
                raise AssertionError(move)

    def refuse(self, state: State, rules: Rules) -> None:
        """Hold that the database refuses what the model has no move for: to reap, and to claim."""
        offered = {move for move, _ in moves(state, rules)}
        if Move("reap") not in offered:
            assert run(self.conn, reap(_CRASHES_MAX, SQL)) == ()
        for at, worker in enumerate(state.workers):
            idle = worker.incarnation is not None and not worker.token
            bound = state.row.token == rules.claims  # the model's own: it has looked far enough
            if idle and not bound and Move("claim", at) not in offered:
                assert worker.incarnation is not None
                claims = run(self.slots[at].conn, claiming(self.incarnations[worker.incarnation]))
                assert claims == (), "claimed where nobody may"

    def found(self) -> tuple[Row, tuple[bool, ...], int, int]:
        """Read what is committed as the model has it: the row, whose lease holds, the effects; and count the runs."""
        (event,) = rows(self.conn, _EVENT)
        owner = None if event["worker_id"] is None else self.incarnations.index(event["worker_id"])
        holds = {each["id"]: each["holds"] for each in rows(self.conn, _LEASES)}
        row = Row(event["state"], event["claims"], event["attempts"], owner)
        leases = tuple(holds[each] for each in self.incarnations)
        return row, leases, len(rows(self.conn, _EFFECTS)), self.runs

    def _register(self) -> None:
        self.incarnations.append(run(self.conn, register("worker", TICK_SECONDS * LEASE, SQL)))

    def _work(self, name: str, slot: Slot, worker: WorkerId | None) -> None:
        match name:
            case "begin":
                self._register()
            case "renew":
                assert worker is not None
                assert run(self.conn, renew(worker, TICK_SECONDS * LEASE, SQL))
            case "claim":
                assert worker is not None
                (slot.claim,) = run(slot.conn, claiming(worker))
            case "die":
                self._die(slot)
            case _:
                assert slot.claim is not None
                self._end(name, slot, slot.claim)

    def _end(self, name: str, slot: Slot, claim: Claim) -> None:
        """Begin the run of a claim, end it, or record that it has failed; a claim that is lost is found to be so."""
        match name:
            case "run":
                begun = Run(self.pool, slot.conn, claim)
                if begun.working:
                    slot.run, self.runs = begun, self.runs + 1
                    return
                assert begun.end() is RunOutcome.LEASE_LOST
            case "commit":
                assert slot.run is not None
                assert slot.run.end() is RunOutcome.PROCESSED
            case _:
                assert name == "fail"
                error = HandlerFailedError("it failed")
                assert run(slot.conn, failing(claim, error)) in {RunOutcome.RETRYING, RunOutcome.LEASE_LOST}
        slot.claim = slot.run = None

    def _die(self, slot: Slot) -> None:
        """End a worker's session at once, and whatever it is doing; somebody else may begin in its place."""
        if slot.run is not None:
            assert self.conn.execute(_END_SESSION, [slot.run.pid]).fetchone() == (True,)
            assert isinstance(slot.run.end(), InboxError), "P-ONCE: committed by who was dead"
        slot.conn.close()
        slot.conn, slot.claim, slot.run = psycopg.connect(self.dsn, autocommit=True), None, None

    def close(self) -> None:
        """Let go whoever works, and close what is open."""
        for slot in self.slots:
            if slot.run is not None:
                slot.run.end()
            slot.conn.close()


@contextmanager
def stage(dsn: str, conn: Connection) -> Iterator[Stage]:
    """Put up a stage on the database of *dsn*, to be emptied by ``begin`` as often as wanted."""
    with ThreadPoolExecutor(len(BEGIN.workers)) as pool:
        slots = [Slot(psycopg.connect(dsn, autocommit=True)) for _ in BEGIN.workers]
        made = Stage(dsn, conn, pool, slots)
        try:
            yield made
        finally:
            made.close()


def wanted(state: State) -> tuple[Row, tuple[bool, ...], int, int]:
    """Give what ``found`` should give."""
    return state.row, tuple(bool(left) for left in state.leases), len(state.committed), state.runs
