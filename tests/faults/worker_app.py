"""
The worker that is killed, stopped and starved: an inbox whose handlers are made to be counted.

Run as a program it works as its arguments say, ends at SIGTERM as a worker does, and at the second one at once:

    python -m tests.faults.worker_app '{"dsn": ..., "role": "worker", ...}'

Each run of a handler is written down outside PostgreSQL before its first statement (``journal``). What a handler does
after its writes is the event's type; ``..._once`` does it the first time only, whoever dies meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import uvicorn

from tests.faults.app import EFFECT, TABLES, App, Setup, pauses, with_switchboard
from tests.faults.rivals import PointHolder
from tests.faults.sender import STRIPE_SECRET
from webhook_inbox import Event, GiveUp, Ignore, Inbox, NotYet, Tx
from webhook_inbox.endpoint import Endpoint
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.points import Passing, PointKiller, PointRecorder

KINDS = ("sync", "async")
SHAPES = ("one", "batch", "set", "ordered", "prepared", "hybrid", "inline")
#: Beside the handlers' own: who held what, written by the server as it happens. A token that is used twice fails. An
#: inline run needs no claim.
WORKER_TABLES = (
    TABLES
    + """
CREATE TABLE tokens (id bigint, token integer, attempts integer, worker_id bigint, PRIMARY KEY (id, token));
CREATE TABLE given_back (id bigint, token integer, attempts integer);
CREATE FUNCTION keep_book() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.claims <> OLD.claims THEN
        IF NEW.claims <> OLD.claims + 1 OR NEW.attempts <> OLD.attempts + 1 THEN
            RAISE EXCEPTION 'claim % of event % follows %', NEW.claims, NEW.id, OLD.claims;
        END IF;
        INSERT INTO tokens VALUES (NEW.id, NEW.claims, NEW.attempts, NEW.worker_id);
    ELSIF NEW.attempts <> OLD.attempts AND NEW.claims > 0 THEN
        IF NEW.attempts <> OLD.attempts - 1 THEN
            RAISE EXCEPTION 'attempts of event % go from % to %', NEW.id, OLD.attempts, NEW.attempts;
        END IF;
        INSERT INTO given_back VALUES (NEW.id, NEW.claims, NEW.attempts);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_book AFTER UPDATE ON webhooks.inbox FOR EACH ROW EXECUTE FUNCTION keep_book();
CREATE FUNCTION keep_book_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.claims > 0 THEN
        INSERT INTO tokens VALUES (NEW.id, NEW.claims, NEW.attempts, NEW.worker_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_book_of_new AFTER INSERT ON webhooks.inbox FOR EACH ROW EXECUTE FUNCTION keep_book_of_new();
"""
)
#: What an event of a type ``..._once`` leaves in the room when its deed is done.
DEED, STOP = "done", "stopped"
WAIT_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class WorkerSetup(Setup):
    """
    Say how a worker is set up; passed to it as JSON.

    Attributes:
        room: A folder: the journal, and what was done once.
        role: ``worker``, or ``receiver``: the HTTP side of the same inbox; ``both``.
        endpoints: Those it has, as ``shape-kind``; none: all.
        drain: Whether it ends when nothing is due.
        die_at: The passing at which it dies, if anywhere.
        hold_at: The passing at which it waits for the test, if anywhere.
    """

    room: str = ""
    role: str = "worker"
    endpoints: tuple[str, ...] = ()
    drain: bool = True
    die_at: str = ""
    hold_at: str = ""


def make_worker_inbox(setup: WorkerSetup, probe: Probe = no_probe) -> Inbox:
    """Make the inbox that every worker test delivers to and works for."""
    inbox = Inbox(setup.dsn, probe=probe, **setup.settings)
    for name in setup.endpoints or [f"{shape}-{kind}" for shape in SHAPES for kind in KINDS]:
        shape, _, kind = name.partition("-")
        _open(inbox, shape, kind, Deeds(Path(setup.room), probe))
    return inbox


def _open(inbox: Inbox, shape: str, kind: str, deeds: Deeds) -> Endpoint:
    name, source = f"{shape}-{kind}", Stripe(STRIPE_SECRET)
    handler = sync_handler(deeds) if kind == "sync" else async_handler(deeds)
    match shape:
        case "one" | "batch":
            more: dict[str, Any] = {"concurrency_max": 1} if shape == "batch" else {}
            endpoint = inbox.endpoint(name, source, **more)
            endpoint.on("test.*")(handler)
        case "set":
            endpoint = inbox.endpoint(name, source, concurrency_max=1)
            endpoint.on_batch("test.*")(sync_set(deeds) if kind == "sync" else async_set(deeds))
        case "ordered":
            endpoint = inbox.endpoint(name, source, order_by="key")
            endpoint.on("test.*")(handler)
        case "prepared":
            endpoint = inbox.endpoint(name, source)
            endpoint.on("test.*", prepare=deeds.prepare)(prepared(handler))
        case "hybrid" | "inline":
            endpoint = inbox.endpoint(name, source, mode="hybrid" if shape == "hybrid" else "inline")
            endpoint.on("test.*")(handler)
        case _:
            raise ValueError(f"there is no shape {shape}")
    return endpoint


class Deeds:
    """
    Do what a handler does beside its statements, and write down that it ran.

    Args:
        room: Where the journal is, and the marks of what was done once.
        probe: Told the handler's own fault points.
    """

    def __init__(self, room: Path, probe: Probe) -> None:
        self._room = room
        self._probe = probe

    @contextmanager
    def told(self, statement: str) -> Iterator[None]:
        """Stand between two fault points of the handler's own."""
        self._probe(f"handler.{statement}.before")
        yield
        self._probe(f"handler.{statement}.after")

    def begin(self, event: Event) -> None:
        """Write the run into the journal, outside PostgreSQL."""
        line = json.dumps({"event": event.id, "attempt": event.attempt, "pid": os.getpid()}) + "\n"
        with (self._room / "journal").open("a", encoding="utf-8", buffering=1) as journal:
            journal.write(line)

    def first_time(self, event: Event, deed: str = DEED) -> bool:
        """Whether this event's deed is still to be done; it counts as done from now on, even if we die."""
        try:
            (self._room / f"{event.id}.{deed}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def statement(self, event: Event) -> str:
        """A statement of the handler's that ends in trouble, or none."""
        if event.type == "test.lose_then_stop" and self.first_time(event):
            return "SELECT pg_terminate_backend(pg_backend_pid())"
        return ""

    def block(self, event: Event) -> None:
        """Keep this thread, and a loop on it, from anything else."""
        if event.type == "test.wait_once" and self.first_time(event):
            (self._room / f"{event.id}.in").touch()
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while not (self._room / f"{event.id}.go").exists() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        if event.type == "test.block":
            (self._room / f"{event.id}.in").touch()
            time.sleep(pauses(event, "test.block"))

    def pause(self, event: Event) -> float:
        """How long the handler shall pause, in seconds."""
        if event.type == "test.pause_once" and self.first_time(event):
            (self._room / f"{event.id}.in").touch()
            return pauses(event, "test.pause_once")
        if event.type == "test.stop_then_hang" and self.first_time(event, STOP):
            os.kill(os.getpid(), signal.SIGTERM)
            return WAIT_SECONDS_MAX
        return pauses(event, "test.pause")

    def end(self, event: Event) -> None:
        """End as the event's type says."""
        match event.type:
            case "test.exit":
                os._exit(3)
            case "test.lose_then_stop" if self.first_time(event, STOP):
                os.kill(os.getpid(), signal.SIGTERM)
            case "test.fail":
                raise ValueError("the handler is broken")
            case "test.fail_once" if self.first_time(event):
                raise ValueError("the handler is broken for now")
            case "test.not_yet_once" if self.first_time(event):
                raise NotYet("the order is not there yet", retry_in_seconds=1e-6)
            case "test.give_up":
                raise GiveUp("nobody can book this")
            case "test.ignore":
                raise Ignore("not ours")
            case _:
                return

    def prepare(self, event: Event) -> str:
        """Look something up outside the transaction."""
        if event.type == "test.give_up_early":
            raise GiveUp("nobody knows this")
        return event.id


def sync_handler(deeds: Deeds) -> Callable[..., Any]:
    """Make the handler that runs on threads."""

    def handle(tx: Tx[psycopg.Connection[Any]], event: Event) -> None:
        deeds.begin(event)
        with deeds.told("first"):
            tx.conn.execute(EFFECT, (event.id, "first"))
        with deeds.told("emit"):
            tx.emit("EffectBooked", {"event": event.id}, aggregate_type="Effect", aggregate_id=event.id)
        if statement := deeds.statement(event):
            tx.conn.execute(statement)
        deeds.block(event)
        time.sleep(deeds.pause(event))
        with deeds.told("second"):
            tx.conn.execute(EFFECT, (event.id, "second"))
        deeds.end(event)

    return handle


def async_handler(deeds: Deeds) -> Callable[..., Any]:
    """Make the handler that runs on the event loop."""

    async def handle(tx: Tx[psycopg.AsyncConnection[Any]], event: Event) -> None:
        deeds.begin(event)
        with deeds.told("first"):
            await tx.conn.execute(EFFECT, (event.id, "first"))
        with deeds.told("emit"):
            await tx.emit("EffectBooked", {"event": event.id}, aggregate_type="Effect", aggregate_id=event.id)
        if statement := deeds.statement(event):
            await tx.conn.execute(statement)
        deeds.block(event)
        await asyncio.sleep(deeds.pause(event))
        with deeds.told("second"):
            await tx.conn.execute(EFFECT, (event.id, "second"))
        deeds.end(event)

    return handle


def sync_set(deeds: Deeds) -> Callable[..., Any]:
    """Make the set-based handler that runs on threads."""

    def handle(tx: Tx[psycopg.Connection[Any]], events: list[Event]) -> None:
        for event in events:
            deeds.begin(event)
            with deeds.told("first"):
                tx.conn.execute(EFFECT, (event.id, "first"))
            payload = {"event": event.id}
            tx.emit("EffectBooked", payload, aggregate_type="Effect", aggregate_id=event.id, event=event)
            tx.conn.execute(EFFECT, (event.id, "second"))
            deeds.end(event)

    return handle


def async_set(deeds: Deeds) -> Callable[..., Any]:
    """Make the set-based handler that runs on the event loop."""

    async def handle(tx: Tx[psycopg.AsyncConnection[Any]], events: list[Event]) -> None:
        for event in events:
            deeds.begin(event)
            with deeds.told("first"):
                await tx.conn.execute(EFFECT, (event.id, "first"))
            payload = {"event": event.id}
            await tx.emit(
                "EffectBooked", payload, aggregate_type="Effect", aggregate_id=event.id, event=event
            )
            await tx.conn.execute(EFFECT, (event.id, "second"))
            deeds.end(event)

    return handle


def prepared(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Make of *handler* one that takes what its prepare stage gave."""
    if asyncio.iscoroutinefunction(handler):

        async def handle_async(tx: Tx[Any], event: Event, known: str) -> None:
            assert known == event.id
            await handler(tx, event)

        return handle_async

    def handle(tx: Tx[Any], event: Event, known: str) -> None:
        assert known == event.id
        handler(tx, event)

    return handle


def run(setup: WorkerSetup, lane: socket.socket | None = None) -> None:
    """Be the worker, or the receiver on *lane*, until it ends by itself or is told to."""
    recorder = PointRecorder()
    killer, holder = PointKiller(Path(setup.witness)), PointHolder(Path(setup.witness))
    if setup.die_at:
        killer.arm(Passing.parse(setup.die_at))
    if setup.hold_at:
        holder.arm(Passing.parse(setup.hold_at))

    def probe(point: str) -> None:
        if setup.record:
            recorder(point)
        holder(point)
        killer(point)

    inbox = make_worker_inbox(setup, probe)
    if setup.role == "worker":
        outcomes = asyncio.run(work(inbox, drain=setup.drain))
        points = [str(passing) for passing in recorder.passings]
        told = {"points": points, "outcomes": {str(outcome): n for outcome, n in outcomes.items()}}
        Path(setup.room, f"told-{os.getpid()}").write_text(json.dumps(told))
        return
    assert lane is not None
    app = with_switchboard(inbox.asgi(), killer, holder, recorder if setup.record else None)
    if setup.role == "both":
        app = beside_a_worker(app, inbox)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    uvicorn.Server(config).run(sockets=[lane])


async def work(inbox: Inbox, *, drain: bool) -> Counter[Any]:
    """Work until SIGTERM; the second one ends the process at once, whatever it is doing."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def told(*_: object) -> None:
        if stop.is_set():
            os._exit(128 + signal.SIGTERM)
        stop.set()
        loop.call_soon_threadsafe(lambda: None)

    signal.signal(signal.SIGTERM, told)
    return await inbox.work(stop=stop, drain=drain)


def beside_a_worker(app: App, inbox: Inbox) -> App:
    """Run the inbox's own worker in the receiver's process, as ``running(worker=True)`` does."""
    working: list[asyncio.Task[Any]] = []
    stop = asyncio.Event()

    async def both(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            working.append(asyncio.create_task(inbox.work(stop=stop)))
            try:
                await app(scope, receive, send)
            finally:
                stop.set()
                await working.pop()
        else:
            await app(scope, receive, send)

    return both


def main() -> None:
    """Work as the first argument says."""
    logging.basicConfig(level=logging.INFO, format="%(process)d %(levelname)s %(event)s %(message)s")
    logging.getLogger("webhook_inbox").setLevel(logging.DEBUG)  # tests wait for its listener
    given = json.loads(sys.argv[1])
    run(WorkerSetup(**{**given, "endpoints": tuple(given.get("endpoints", ()))}))


if __name__ == "__main__":
    main()
