"""What serves nothing else can be scraped, where it is asked to be."""

from __future__ import annotations

import socket
from urllib.request import urlopen

import pytest

from tests.fixtures.cli import SECONDS_MAX, Cli


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def test_a_worker_is_scraped(shop: Cli) -> None:
    """From when it says that it works until it is told to stop."""
    port = free_port()
    worker = shop.start("worker", "shop:inbox", "--json", "--metrics-port", str(port))
    assert worker.stdout is not None
    assert worker.stdout.readline()
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS_MAX) as answer:
        assert b"webhook_inbox_requests_in_flight" in answer.read()
    worker.terminate()
    assert worker.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize("verb", ["worker", "relay"])
def test_an_address_that_is_taken_is_refused(shop: Cli, verb: str) -> None:
    """Exit 2, one sentence, before anything is claimed."""
    if verb == "relay":
        shop.app(RELAYS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shop.run(verb, "shop:inbox", "--metrics-port", port)
    assert done.returncode == 2
    assert done.stderr == f"webhook-inbox: cannot listen on 127.0.0.1:{port}: Address already in use\n"


RELAYS = """
from webhook_inbox import Inbox
from webhook_inbox.destinations import Call
from webhook_inbox.sources import Stripe

inbox = Inbox()
inbox.endpoint("shop", Stripe(secrets="whsec_fake_monitor_000000"))


def tell(message):
    pass


inbox.destination("ledger", Call(tell))
inbox.route("*", to="ledger")
"""
