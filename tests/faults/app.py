"""
The receiver that is killed: an inbox with every kind of endpoint, whose handlers are made to be counted.

``effects`` has no unique constraint, so that a second application shows as a second row. Around each of the handler's
own statements there is a fault point, ``handler.<statement>.before`` and ``.after``. A request's header
``x-fault-point`` says where to die, ``x-fault-hold`` where to wait for the test; ``POST /points`` tells which points
were passed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from tests.faults.rivals import PointHolder
from tests.faults.sender import HMAC_SECRET, STRIPE_SECRET
from webhook_inbox import Endpoint, Event, GiveUp, Ignore, Inbox, NotYet, Tx
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.sources import Hmac, Stripe
from webhook_inbox.testing.points import Passing, PointKiller, PointRecorder

KINDS = ("sync", "async")
TABLES = """
CREATE TABLE effects (event_id text NOT NULL, part text NOT NULL, pid integer NOT NULL DEFAULT pg_backend_pid());
"""
EFFECT = "INSERT INTO effects (event_id, part) VALUES (%s, %s)"
#: The statement of a handler that waits until the test lets go of the lock.
GATE = "SELECT pg_advisory_xact_lock_shared(%s)"
GATE_KEY = 42

Scope: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


@dataclass(frozen=True, slots=True)
class Setup:
    """
    Say how a server is set up; passed to it as JSON.

    Attributes:
        witness: Where a death by fault point is attested.
        record: Whether the points passed are remembered.
        settings: Of the inbox.
    """

    dsn: str
    witness: str
    record: bool = False
    settings: dict[str, Any] = field(default_factory=dict)


def make_inbox(dsn: str, *, probe: Probe = no_probe, **settings: Any) -> Inbox:
    """Make the inbox that every fault test delivers to."""
    inbox = Inbox(dsn, probe=probe, **settings)
    for kind in KINDS:
        for endpoint in _endpoints(inbox, kind):
            endpoint.on("test.*")(counting_handler(kind, probe))
    return inbox


def _endpoints(inbox: Inbox, kind: str) -> Iterator[Endpoint]:
    yield inbox.endpoint(f"stripe-{kind}", Stripe(STRIPE_SECRET), mode="inline")
    yield inbox.endpoint(
        f"unsigned-{kind}",
        Hmac(
            "unsigned",
            secrets=HMAC_SECRET,
            header="X-Signature",
            event_id="header:X-Event-Id",
            event_type="$.type",
            redelivers=True,
        ),
        mode="inline",
    )
    yield inbox.endpoint(
        f"batch-{kind}",
        Hmac("batch", secrets=HMAC_SECRET, header="X-Signature", items="$.events", redelivers=True),
        mode="inline",
        duplicate_wait_seconds=0.1,
    )


def counting_handler(kind: str, probe: Probe = no_probe) -> Callable[..., Any]:
    """Make the handler whose effects can be counted, as ``def`` or ``async def``."""

    @contextmanager
    def told(statement: str) -> Iterator[None]:
        probe(f"handler.{statement}.before")
        yield
        probe(f"handler.{statement}.after")

    def handle(tx: Tx[psycopg.Connection[Any]], event: Event) -> None:
        with told("first"):
            tx.conn.execute(EFFECT, (event.id, "first"))
        with told("emit"):
            tx.emit("EffectBooked", {"event": event.id}, aggregate_type="Effect", aggregate_id=event.id)
        if asks_for_review(event):
            with told("review"):
                tx.review("somebody must look", details={"event": event.id})
        if statement := waits_with(event):
            with told("wait"):
                tx.conn.execute(*statement)
        time.sleep(pauses(event, "test.pause"))
        with told("second"):
            tx.conn.execute(EFFECT, (event.id, "second"))
        time.sleep(pauses(event, "test.pause_at_the_end"))
        steer(event)

    async def handle_async(tx: Tx[psycopg.AsyncConnection[Any]], event: Event) -> None:
        with told("first"):
            await tx.conn.execute(EFFECT, (event.id, "first"))
        with told("emit"):
            await tx.emit("EffectBooked", {"event": event.id}, aggregate_type="Effect", aggregate_id=event.id)
        if asks_for_review(event):
            with told("review"):
                await tx.review("somebody must look", details={"event": event.id})
        if statement := waits_with(event):
            with told("wait"):
                await tx.conn.execute(*statement)
        await asyncio.sleep(pauses(event, "test.pause"))
        with told("second"):
            await tx.conn.execute(EFFECT, (event.id, "second"))
        await asyncio.sleep(pauses(event, "test.pause_at_the_end"))
        steer(event)

    return handle if kind == "sync" else handle_async


def asks_for_review(event: Event) -> bool:
    """Whether the handler shall ask a person to look."""
    return event.type in {"test.ignore", "test.give_up"}


def waits_with(event: Event) -> tuple[Any, ...]:
    """The statement by which the handler shall wait; empty: it shall not."""
    if event.type == "test.gate":
        return GATE, (GATE_KEY,)
    if event.type == "test.slow":
        return "SELECT pg_sleep(%s)", (event.payload["seconds"],)
    return ()


def pauses(event: Event, event_type: str) -> float:
    """How long the handler shall pause, in seconds."""
    return float(event.payload["seconds"]) if event.type == event_type else 0.0


def steer(event: Event) -> None:
    """End the handler as the event's type, or this attempt's ``x-fault-handler`` header, says."""
    match event.headers.get("x-fault-handler") or event.type:
        case "test.ignore":
            raise Ignore("not ours")
        case "test.give_up":
            raise GiveUp("nobody can book this")
        case "test.fail" | "fail":
            raise ValueError("the handler is broken")
        case "not-yet":
            raise NotYet("the order is not there yet", retry_in_seconds=1)
        case _:
            return


def make_app(setup: Setup) -> App:
    """Make the ASGI app of *setup*, with a switchboard in front of it for the test."""
    recorder = PointRecorder() if setup.record else None
    killer = PointKiller(Path(setup.witness))
    holder = PointHolder(Path(setup.witness))

    def probe(point: str) -> None:
        if recorder is not None:
            recorder(point)
        holder(point)
        killer(point)

    receiver = make_inbox(setup.dsn, probe=probe, **setup.settings).asgi()
    return with_switchboard(receiver, killer, holder, recorder)


def with_switchboard(
    receiver: App, killer: PointKiller, holder: PointHolder, recorder: PointRecorder | None = None
) -> App:
    """Put the test's switchboard in front of *receiver*: headers arm the killer and the holder."""

    async def switchboard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            if recorder is not None and scope["path"] == "/points":
                await _tell(recorder, send)
                return
            headers = dict(scope["headers"])
            for name, armed in ((b"x-fault-point", killer), (b"x-fault-hold", holder)):
                if name in headers:
                    armed.arm(Passing.parse(headers[name].decode()))
        await receiver(scope, receive, send)

    return switchboard


async def _tell(recorder: PointRecorder, send: Any) -> None:
    body = json.dumps([str(passing) for passing in recorder.take()]).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
