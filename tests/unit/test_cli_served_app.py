"""What one server process runs beside the receiver ends, or fails, without taking the receiver with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from webhook_inbox import Inbox
from webhook_inbox.cli.served_app import ServedApp
from webhook_inbox.errors import ConfigurationError


class Worker:
    """Stand in for the inbox's worker: work until told to stop, or fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.stopped = False

    async def work(self, *, stop: asyncio.Event) -> None:
        """Do as ``Inbox.work``."""
        if self.failure is not None:
            raise self.failure
        await stop.wait()
        self.stopped = True


async def life(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start and stop a process's app; give what it told the server."""
    monkeypatch.setattr("webhook_inbox.cli.served_app.end_soon", lambda: None)
    monkeypatch.setattr("webhook_inbox.cli.served_app._also_at_signals", lambda _: None)
    inbox = Inbox("postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setattr(inbox, "work", worker.work)
    told: list[str] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": next(messages)}

    async def send(message: Any) -> None:
        told.append(message["type"])

    await ServedApp(inbox, None, with_worker=True, with_relay=False)({"type": "lifespan"}, receive, send)
    return told


COMPLETE = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_the_worker_has_stopped_before_the_server_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way is finished or given back before the loop ends."""
    worker = Worker()
    assert asyncio.run(life(worker, monkeypatch)) == COMPLETE
    assert worker.stopped


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ConfigurationError("the pool given serves no worker"), "the pool given serves no worker"),
        (ZeroDivisionError("card 4242"), "unexpected ZeroDivisionError"),
    ],
)
def test_a_worker_that_fails_is_told_and_receiving_goes_on(
    failure: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-CALM, P-QUIET: nobody waits for an effect that no worker brings without having been told."""
    assert asyncio.run(life(Worker(failure), monkeypatch)) == COMPLETE
    told = capsys.readouterr().err
    assert said in told
    assert "a worker or relay of this process runs no more; deliveries are still recorded" in told
    assert "4242" not in told
