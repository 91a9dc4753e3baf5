"""What all brokers share: what travels beside a payload, and what of a place or an error may be shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from tests.fixtures.brokers import message
from webhook_inbox.destinations import Destination, Http, Kafka, Nats, RabbitMQ, RedisStream
from webhook_inbox.destinations.broker import headers_of, name_for, shown_url, why
from webhook_inbox.destinations.nats import _headers
from webhook_inbox.errors import ConfigurationError, DestinationError

MADE: dict[str, Callable[[], Destination]] = {
    "nats": lambda: Nats(["nats://me:fake@one:4222", "nats://fake@two:4222"], subject="billing"),
    "aio_pika": lambda: RabbitMQ("amqp://me:fake@one/billing", exchange="events", routing_key=str),
    "redis": lambda: RedisStream("redis://me:fake@one:6379/0?password=fake", stream="billing"),
    "confluent_kafka": lambda: Kafka("one:9092", topic="billing", options={"sasl.password": "fake"}),
    "httpcore": lambda: Http("https://one/hooks?token=fake", secret="whsec_ZmFrZWZha2VmYWtlZmFrZWZha2VmYWtl"),
}


@pytest.mark.parametrize("module", MADE)
def test_a_place_names_where_it_leads_and_no_secret(module: str) -> None:
    """P-QUIET: user, password, token and query of a URL are nobody's business."""
    place = MADE[module]().place
    assert "one" in place
    assert "fake" not in place


@pytest.mark.parametrize("module", MADE)
def test_a_missing_extra_is_said_when_the_destination_is_made(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not hours later, where a message waits for it; the text is what to type."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ConfigurationError, match=r"pip install 'webhook-inbox\[(nats|rabbitmq|redis|kafka|http)\]'"
    ):
        MADE[module]()


def test_knowing_the_destinations_loads_no_client() -> None:
    """A receiver that only names where its relay sends pays nothing for it."""
    code = f"import sys, webhook_inbox.destinations; print(sorted({set(MADE)} & sys.modules.keys()))"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"


def test_our_own_headers_are_said_by_us_alone() -> None:
    """Nobody who writes a message can give it another id."""
    given = message(headers={"message-id": "another", "event-type": "another", "tenant": "t1"})
    found = headers_of(given)
    assert (found["message-id"], found["event-type"], found["tenant"]) == (str(given.id), "InvoicePaid", "t1")


def test_a_function_that_gives_no_name_is_told_so() -> None:
    """A client that is handed something else would fail all that is in the batch."""
    nameless: Any = lambda _: None  # noqa: E731 - as a user may write it
    with pytest.raises(TypeError, match="a name is text, not NoneType"):
        name_for(message(), nameless)


@pytest.mark.parametrize(
    ("value", "header"),
    [("Päid", "P%C3%A4id"), ("a\r\nNats-Msg-Id: other", "a%0D%0ANats-Msg-Id: other"), ("50 %", "50 %25")],
)
def test_a_header_of_nats_ends_where_it_ends(value: str, header: str) -> None:
    """What an event type or an aggregate is called starts no header of its own, and can be read back."""
    found = _headers(message(event_type=value, aggregate_id=value))
    assert found["event-type"] == found["aggregate-id"] == header
    assert unquote(header) == value


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqps://me:p%40ss@one:5671/vhost?heartbeat=1", "amqps://one:5671/vhost"),
        ("nats://token@one", "nats://one"),
        ("redis://one:6379/", "redis://one:6379"),
        ("redis://:fa@ke@one/0", "redis://one/0"),
        ("rediss://me:fake@[::1]:6379/0?password=fake", "rediss://[::1]:6379/0"),
        ("unix://:fake@/run/redis.sock?db=0", "unix:///run/redis.sock"),
        ("fake@one:4222", "one:4222"),
        ("one:4222", "one:4222"),
        ("amqp://me:fa#ke@one", "(a URL that cannot be read)"),
        ("redis://me:fa?ke@one", "(a URL that cannot be read)"),
        ("redis://me:fa/ke@one/0", "(a URL that cannot be read)"),
        ("redis://one/0?password=fa@ke", "(a URL that cannot be read)"),
        ("redis://one:fake", "(a URL that cannot be read)"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """P-QUIET: however badly it is written."""
    assert shown_url(url) == shown


def test_of_an_error_its_kind_is_shown_and_of_ours_the_words() -> None:
    """P-QUIET: a client's text may quote the URL; what the system says beneath it is more telling."""
    assert why(DestinationError("declare it")) == "declare it"
    assert why(ValueError("redis://me:fake@one")) == "ValueError"
    error = RuntimeError("fake")
    error.__cause__ = ConnectionRefusedError("fake")
    assert why(error) == "ConnectionRefusedError"
