"""Make the handlers that are counted: what they do beside their statements, and how they end, is their event's type."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.app import EFFECT, pauses
from webhook_inbox import Event, GiveUp, Ignore, NotYet, Tx
from webhook_inbox.protocol.probe import Probe

#: What an event of a type ``..._once`` leaves in the room when its deed is done.
DEED, STOP = "done", "stopped"
WAIT_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.005


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
            case "test.give_up" | "test.give_up_reviewed":
                raise GiveUp("nobody can book this")
            case "test.give_up_once" if self.first_time(event):
                raise GiveUp("nobody can book this yet")
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
        if event.type == "test.give_up_reviewed":
            tx.review("somebody must look")
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
        if event.type == "test.give_up_reviewed":
            await tx.review("somebody must look")
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
