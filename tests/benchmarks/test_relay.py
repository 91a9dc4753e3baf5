"""A run of the relay counts only where all was published, and is held against as many messages."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.relay.brokers import BROKERS, PLACE, TOGETHER, Broker, batches
from benchmarks.relay.suite import MESSAGES_QUICK, SUITE, measure_client, measure_relay
from tests.fixtures.brokers import KINDS, NatsBroker
from webhook_inbox import GiveUp
from webhook_inbox.destinations import Call, Message

NATS = BROKERS[0]


@pytest.fixture
def nats(nats_broker: NatsBroker) -> Broker:
    """The benchmark's NATS, on the tests' server, with nothing in its stream."""

    async def anew(url: str) -> None:
        async with nats_broker.context() as context:
            await context.add_stream(name=PLACE, subjects=[PLACE])
            await context.purge_stream(PLACE)

    return replace(NATS, serve=lambda: nullcontext(nats_broker.server.url), create=anew)


@pytest.fixture
def bench(empty_database: str) -> Bench:
    """A quick run on a database of the test's."""

    class OneDatabase:
        def database(self) -> Any:
            return nullcontext(Database(empty_database))

    server: Any = OneDatabase()
    return Bench(server, 0.0, quick=True)


def stored(nats_broker: NatsBroker) -> int:
    """How many messages the stream has."""

    async def ask() -> int:
        async with nats_broker.context() as context:
            return int((await context.stream_info(PLACE)).state.messages)

    return asyncio.run(ask())


def test_the_relay_and_the_client_bring_as_many_messages(
    nats: Broker, bench: Bench, nats_broker: NatsBroker
) -> None:
    """Each run gives its rate, and has done what it is the rate of."""
    assert measure_relay(nats, bench)["per_second"] > 0
    assert stored(nats_broker) == MESSAGES_QUICK
    assert measure_client(nats, bench)["per_second"] > 0
    assert stored(nats_broker) == MESSAGES_QUICK


def test_what_was_not_published_is_no_figure(nats: Broker, bench: Bench) -> None:
    """A destination that takes nothing would be the fastest of all."""

    def refuse(_: Message) -> None:
        raise GiveUp("no")

    with pytest.raises(InvariantError, match=f"{MESSAGES_QUICK} of {MESSAGES_QUICK} messages"):
        measure_relay(replace(nats, destination=lambda _: Call(refuse)), bench)


def test_every_payload_is_in_one_batch() -> None:
    """Nothing is left out where the last one is smaller."""
    payloads = [str(number).encode() for number in range(TOGETHER + 1)]
    assert [each for batch in batches(payloads) for each in batch] == payloads


def test_every_broker_is_measured_beside_its_own_client() -> None:
    """A ratio between two brokers would say nothing about the relay."""
    assert {each.name for each in BROKERS} == set(KINDS)
    found = {each.name: each.reference for each in SUITE.subjects}
    assert found == {f"{kind}_{what}": f"{kind}_client" for kind in KINDS for what in ("client", "relay")}
