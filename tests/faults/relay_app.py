"""
The relay that is killed: an inbox whose destinations write down what reaches them.

``call`` is a function that notes each message in a file of the test's; ``http`` posts to a receiver of the test's. Both
note a message before they confirm it, as whoever is told of something does.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.faults.app import Setup
from tests.faults.worker_app import await_heartbeat
from tests.faults.yields import YieldWatch
from webhook_inbox import Inbox
from webhook_inbox.destinations import Call, Destination, Http, Message
from webhook_inbox.protocol import relay
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.testing.points import Passing, PointKiller, PointRecorder

SECRET = "whsec_" + base64.b64encode(b"an obviously fake key for kills").decode()
KINDS = ("call", "http")


@dataclass(frozen=True, slots=True)
class RelaySetup(Setup):
    """
    Say how a relay is set up; passed to it as JSON.

    Attributes:
        room: A folder: what ``call`` was called with, and what the relay tells at its end.
        url: Where ``http`` posts to.
        kinds: The destinations it has; each gets every message.
        ordered: Whether each keeps the order of an aggregate.
        drain: Whether it ends when nothing is due.
        die_at: The passing at which it dies, if anywhere.
    """

    room: str = ""
    url: str = "http://127.0.0.1:9/"
    kinds: tuple[str, ...] = KINDS
    ordered: bool = False
    drain: bool = True
    die_at: str = ""


def make_relay_inbox(setup: RelaySetup, probe: Probe = no_probe) -> Inbox:
    """Make the inbox that every relay test works with."""
    inbox = Inbox(setup.dsn, probe=probe, **setup.settings)
    called = Path(setup.room, "called")

    def call(message: Message) -> None:
        with called.open("a", encoding="ascii") as file:  # in one write, which no death can cut in two
            file.write(f"{message.id}\n")

    destinations: dict[str, Destination] = {
        "call": Call(call),
        "http": Http(setup.url, secret=SECRET, allow_private=True),
    }
    for kind in setup.kinds:
        inbox.destination(kind, destinations[kind], ordered=setup.ordered)
        inbox.route("*", to=kind)
    return inbox


def run(setup: RelaySetup) -> None:
    """Relay until nothing is due, or until it dies."""
    recorder, killer = PointRecorder(), PointKiller(Path(setup.witness))
    if setup.die_at:
        killer.arm(Passing.parse(setup.die_at))

    def probe(point: str) -> None:
        recorder(point)
        killer(point)

    inbox = make_relay_inbox(setup, probe)
    watch = YieldWatch(relay)
    with watch.watching() if setup.record else nullcontext():
        asyncio.run(inbox.relay(drain=setup.drain))
        await_heartbeat()
    told = {"points": sorted({each.point for each in recorder.passings}), "yields": sorted(watch.places)}
    Path(setup.room, f"told-{os.getpid()}").write_text(json.dumps(told))
