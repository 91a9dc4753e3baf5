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
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from tests.faults.app import TABLES, App, Setup, with_switchboard
from tests.faults.meanwhile import Meanwhile
from tests.faults.rivals import PointHolder
from tests.faults.sender import STRIPE_SECRET
from tests.faults.worker_handlers import (
    WAIT_SECONDS_MAX,
    Deeds,
    async_handler,
    async_set,
    prepared,
    sync_handler,
    sync_set,
)
from tests.faults.yields import YieldWatch
from webhook_inbox import Inbox
from webhook_inbox.endpoint import Endpoint
from webhook_inbox.protocol import deferred, enqueue, lease, limits, process, run as run_flows
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.points import Passing, PointKiller, PointRecorder

#: What a worker does, and what recording for a worker does.
WORKER_PLANS = (process, run_flows, lease, limits, deferred, enqueue)
KINDS = ("sync", "async")
SHAPES = ("one", "batch", "set", "ordered", "prepared", "hybrid", "inline")
#: Keywords of each shape's endpoint; none: as an endpoint is by default.
KEYWORDS: dict[str, dict[str, Any]] = {
    "one": {},
    "batch": {"concurrency_max": 1},
    "set": {"concurrency_max": 1},
    "set_ordered": {"concurrency_max": 1, "order_by": "id"},
    "ordered": {"order_by": "key"},
    "prepared": {},
    "digest": {"keep": "digest"},
    "revive": {"redelivered_dead": "revive"},
    "hybrid": {"mode": "hybrid"},
    "hybrid_revive": {"mode": "hybrid", "redelivered_dead": "revive"},
    "limited": {},
    "inline": {"mode": "inline"},
    "inline_prepared": {"mode": "inline"},
}
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


@dataclass(frozen=True, slots=True)
class WorkerSetup(Setup):
    """
    Say how a worker is set up; passed to it as JSON.

    Attributes:
        room: A folder: the journal, and what was done once.
        role: ``worker``, or ``receiver``: the HTTP side of the same inbox; ``both``; ``operator``: who pauses and
            resumes each endpoint.
        endpoints: Those it has, as ``shape-kind``; none: all.
        drain: Whether it ends when nothing is due.
        die_at: The passing at which it dies, if anywhere.
        hold_at: The passing at which it waits for the test, if anywhere.
        meanwhile: What others do to the database at its passings; see ``Meanwhile``.
    """

    room: str = ""
    role: str = "worker"
    endpoints: tuple[str, ...] = ()
    drain: bool = True
    die_at: str = ""
    hold_at: str = ""
    meanwhile: dict[str, str] = field(default_factory=dict)


def make_worker_inbox(setup: WorkerSetup, probe: Probe = no_probe) -> Inbox:
    """Make the inbox that every worker test delivers to and works for."""
    inbox = Inbox(setup.dsn, probe=probe, **setup.settings)
    for name in setup.endpoints or [f"{shape}-{kind}" for shape in SHAPES for kind in KINDS]:
        shape, _, kind = name.partition("-")
        _open(inbox, shape, kind, Deeds(Path(setup.room), probe))
    return inbox


def _open(inbox: Inbox, shape: str, kind: str, deeds: Deeds) -> Endpoint:
    endpoint = inbox.endpoint(f"{shape}-{kind}", Stripe(STRIPE_SECRET), **KEYWORDS[shape])
    handler = sync_handler(deeds) if kind == "sync" else async_handler(deeds)
    match shape:
        case "set" | "set_ordered":
            endpoint.on_batch("test.*")(sync_set(deeds) if kind == "sync" else async_set(deeds))
        case "prepared" | "inline_prepared":
            endpoint.on("test.*", prepare=deeds.prepare)(prepared(handler))
        case _:
            endpoint.on("test.*")(handler)
    return endpoint


def run(setup: WorkerSetup, lane: socket.socket | None = None) -> None:
    """Be the worker or the operator, or the receiver on *lane*, until it ends by itself or is told to."""
    recorder = PointRecorder()
    killer, holder = PointKiller(Path(setup.witness)), PointHolder(Path(setup.witness))
    meanwhile = Meanwhile(setup.dsn, setup.meanwhile)
    if setup.die_at:
        killer.arm(Passing.parse(setup.die_at))
    if setup.hold_at:
        holder.arm(Passing.parse(setup.hold_at))

    def probe(point: str) -> None:
        if setup.record:
            recorder(point)
        holder(point)
        meanwhile(point)
        killer(point)

    inbox = make_worker_inbox(setup, probe)
    if setup.role in {"worker", "operator"}:
        watch = YieldWatch(*WORKER_PLANS)
        with watch.watching() if setup.record else nullcontext():
            outcomes = asyncio.run(
                work(inbox, drain=setup.drain) if setup.role == "worker" else operate(inbox)
            )
            if setup.record or setup.die_at:
                await_heartbeat()
        told = {
            "points": [str(passing) for passing in recorder.passings],
            "outcomes": {str(outcome): n for outcome, n in outcomes.items()},
            "yields": sorted(watch.places),
        }
        Path(setup.room, f"told-{os.getpid()}").write_text(json.dumps(told))
        return
    assert lane is not None
    app = with_switchboard(inbox.asgi(), killer, holder, recorder if setup.record else None)
    if setup.role == "both":
        app = beside_a_worker(app, inbox)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    uvicorn.Server(config).run(sockets=[lane])


def await_heartbeat() -> None:
    """Let the heartbeat give its lease up, however busy the machine is: the last of its points are passed then."""
    for thread in threading.enumerate():
        if thread.name == "webhook-inbox-heartbeat":
            thread.join(WAIT_SECONDS_MAX)


async def operate(inbox: Inbox) -> Counter[Any]:
    """Pause and resume each endpoint."""
    async with inbox.running():
        for name in inbox.endpoint_modes:
            await inbox.pause(name, by="a test")
            await inbox.resume(name)
    return Counter()


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
