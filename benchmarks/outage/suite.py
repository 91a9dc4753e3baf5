"""
Have every message go to two destinations, of which one is well and the other is not.

Measured is how long a message takes from its commit to the one that is well. Both are of one relay, so whatever the
other one holds up would show here: connections, threads, claims, the loop.
"""

from __future__ import annotations

import asyncio
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_bytes
from statistics import quantiles
from typing import Any, TypeAlias

import psycopg

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import free_port
from benchmarks.harness.suite import Bench, Subject, Suite
from webhook_inbox import Inbox
from webhook_inbox.destinations import Call, Destination, Http, Message

PER_SECOND = 50
MESSAGES, MESSAGES_QUICK = 1_000, 50
SLOW_SECONDS = 5.0
ARRIVAL_SECONDS_MAX = 60.0
_WRITE = """
INSERT INTO webhooks.outbox (event_type, payload, aggregate_type, aggregate_id)
VALUES ('Paid', '{"invoice": "in_1"}', 'Invoice', %s) RETURNING id::text
"""
#: Gives the destination that is not well while the block runs; None: there is none.
Other: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Hold what is the matter with the other destination."""

    name: str
    title: str
    setting: str
    other: Other


def _refusing() -> Any:  # noqa: ANN401 - as Other
    return nullcontext(_http(free_port()))


@contextmanager
def _hanging() -> Iterator[Destination]:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:  # it accepts, and says nothing
        yield _http(server.getsockname()[1])


def _slow() -> Any:  # noqa: ANN401 - as Other
    async def take_time(_: Message) -> None:
        await asyncio.sleep(SLOW_SECONDS)

    return nullcontext(Call(take_time))


def _http(port: int) -> Destination:
    secret = f"whsec_{b64encode(token_bytes(32)).decode()}"
    return Http(f"http://127.0.0.1:{port}/", secret=secret, allow_private=True)


TROUBLES = (
    Trouble(
        name="alone", title="no other destination", setting="the yardstick", other=partial(nullcontext, None)
    ),
    Trouble(
        name="refusing",
        title="the other refuses connections",
        setting="HTTP, nobody listens",
        other=_refusing,
    ),
    Trouble(
        name="hanging",
        title="the other never answers",
        setting="HTTP, accepted, then silence",
        other=_hanging,
    ),
    Trouble(
        name="slow",
        title="the other is slow",
        setting=f"Call, {SLOW_SECONDS:g} s for each message",
        other=_slow,
    ),
)


def measure(trouble: Trouble, bench: Bench) -> Figures:
    """Make one run: as many messages a second for some seconds, in transactions of their own."""
    count = MESSAGES_QUICK if bench.quick else MESSAGES
    arrived: dict[str, float] = {}
    done = asyncio.Event()

    async def take(message: Message) -> None:
        arrived.setdefault(str(message.id), time.perf_counter())
        if len(arrived) == count:
            done.set()

    with bench.server.database() as database, trouble.other() as other:
        migrate(database)
        inbox = Inbox(database.dsn, stop_seconds_max=2.0)
        inbox.destination("well", Call(take))
        if other is not None:
            inbox.destination("other", other)
            inbox.route("*", to="other")
        inbox.route("*", to="well")
        committed = asyncio.run(_relayed(inbox, database.dsn, done, count))
    lost = committed.keys() - arrived.keys()
    if lost or len(committed) != count:
        raise InvariantError(f"{len(committed)} messages were committed, and {len(lost)} have not arrived")
    took = [(arrived[each] - at) * 1e3 for each, at in committed.items()]
    hundredths = quantiles(took, n=100)
    return {"p99_ms": hundredths[98], "p50_ms": hundredths[49], "max_ms": max(took)}


async def _relayed(inbox: Inbox, dsn: str, done: asyncio.Event, count: int) -> dict[str, float]:
    """Relay while messages are written, until they are *done*; give when each was committed."""
    committed: dict[str, float] = {}
    async with inbox.running(relay=True):
        await asyncio.to_thread(_write, dsn, committed, count)
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), ARRIVAL_SECONDS_MAX)
    return committed


def _write(dsn: str, committed: dict[str, float], count: int) -> None:
    began = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as conn:
        for number in range(count):
            time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
            row = conn.execute(_WRITE, (str(number),)).fetchone()
            if row is not None:
                committed[row[0]] = time.perf_counter()


SUITE = Suite(
    name="outage",
    about="milliseconds from the commit to a destination that is well, while another one is not: less is better",
    subjects=[
        Subject(
            name=each.name,
            group="ours",
            title=each.title,
            setting=each.setting,
            measure=partial(measure, each),
            headline="p99_ms",
        )
        for each in TROUBLES
    ],
    reference="alone",
    seconds=0.0,
)
