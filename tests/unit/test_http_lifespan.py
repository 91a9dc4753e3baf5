"""The receiver starts and stops with its server, in one task, and a failure is one sentence without a payload."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fixtures.asgi import Exchange, once
from webhook_inbox.errors import SchemaVersionError
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.lifespan import Lifespan
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol.endpoint import EndpointPlan


async def deliver(plan: EndpointPlan, delivery: Delivery) -> Receipt:
    """Settle nothing: no request comes here."""
    raise AssertionError


def run(lifespan: Lifespan | None) -> list[str]:
    """Start and stop; give the types of what the server heard, each with its message if it has one."""
    app = AsgiReceiver(find=lambda _: None, deliver=deliver, lifespan=lifespan)
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    said: Exchange = once(app, {"type": "lifespan", "asgi": {"version": "3.0"}}, incoming)
    return [" ".join([m["type"], *([m["message"]] if "message" in m else [])]) for m in said.sent]


def test_without_anything_to_start_the_server_is_told_so() -> None:
    """The protocol is answered, so that no server warns about it."""
    assert run(None) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_start_and_stop_happen_in_one_task() -> None:
    """What was entered at start is left at the end, where the task and its cancel scopes are the same."""
    steps: list[tuple[str, object]] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        steps.append(("start", asyncio.current_task()))
        yield
        steps.append(("stop", asyncio.current_task()))

    assert run(lifespan) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [step for step, _ in steps] == ["start", "stop"]
    assert steps[0][1] is steps[1][1]


@pytest.mark.parametrize("stage", ["startup", "shutdown"])
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (SchemaVersionError("the schema is too old; run webhook-inbox migrate"), "run webhook-inbox migrate"),
        (ValueError("postgresql://user:hunter2@db/x"), "ValueError"),
    ],
)
def test_a_failure_is_told_in_one_sentence(stage: str, error: Exception, shown: str) -> None:
    """P-QUIET: our own errors say what to do; of anybody else's only the type and the place are shown."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if stage == "startup":
            raise error
        yield
        raise error

    said = run(lifespan)[-1]
    assert said.startswith(f"lifespan.{stage}.failed webhook-inbox: {stage} failed: ")
    assert shown in said
    assert "hunter2" not in said
    assert "\n" not in said
