"""A function that is called with each message: what it returns or raises is what became of the message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from webhook_inbox import GiveUp, Ignore, NotYet
from webhook_inbox.destinations import Call, Failed, Message, Sent, Verdict
from webhook_inbox.errors import ConfigurationError


def _message() -> Message:
    return Message(
        id=uuid4(), destination="crm", event_type="Paid", payload=b"{}", created_at=datetime.now(UTC)
    )


def _called(function: Callable[[Message], Any], *messages: Message) -> list[Verdict]:
    async def call() -> list[Verdict]:
        destination = Call(function)
        await destination.open()
        try:
            return list(await destination.send(messages or (_message(),)))
        finally:
            await destination.close()

    return asyncio.run(call())


def _raising(error: Exception, *, awaited: bool) -> Callable[[Message], Any]:
    def plain(message: Message) -> None:
        raise error

    async def waited(message: Message) -> None:
        raise error

    return waited if awaited else plain


@pytest.mark.parametrize("awaited", [False, True])
def test_a_function_gets_the_message_and_its_return_is_the_confirmation(awaited: bool) -> None:
    """The key that it hands on is the message's own id, the same each time."""
    seen: list[str] = []

    async def waited(message: Message) -> None:
        seen.append(message.idempotency_key)

    message = _message()
    function = waited if awaited else lambda given: seen.append(given.idempotency_key)
    assert _called(function, message) == [Sent()]
    assert seen == [str(message.id)]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("raised", "verdict"),
    [
        (GiveUp("no such customer"), Failed("no such customer", permanent=True)),
        (NotYet("asleep", retry_in_seconds=7), Failed("asleep", retry_in_seconds=7)),
        (Ignore("not ours"), Sent()),
    ],
)
def test_a_function_steers_as_a_handler_does(raised: Exception, verdict: Verdict, awaited: bool) -> None:
    """GiveUp is for good, NotYet comes again later, Ignore needs no more."""
    assert _called(_raising(raised, awaited=awaited)) == [verdict]


def test_what_a_function_raises_is_told_without_its_text() -> None:
    """An exception's text may quote the payload; its type and place are told (P-QUIET)."""
    (verdict,) = _called(_raising(ValueError("4242 4242 4242 4242"), awaited=False))
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith("ValueError at test_destinations_call.py:")
    assert "4242" not in verdict.reason
    assert not verdict.permanent
    assert not verdict.stop


def test_one_call_that_fails_leaves_its_neighbours_alone() -> None:
    """Each message of a batch has a verdict of its own, in its place (P-FLOW)."""
    bad, good = _message(), _message()

    def function(message: Message) -> None:
        if message is bad:
            raise RuntimeError

    first, second, third = _called(function, good, bad, good)
    assert (first, third) == (Sent(), Sent())
    assert isinstance(second, Failed)


def test_a_def_runs_on_a_thread_of_its_own() -> None:
    """A call that blocks holds nobody else."""
    threads: list[str] = []
    assert _called(lambda message: threads.append(threading.current_thread().name)) == [Sent()]
    assert threads[0].startswith("webhook-inbox-call")


def test_what_an_async_function_in_disguise_returns_is_awaited() -> None:
    """Nothing is taken for sent that has not run."""
    seen: list[UUID] = []

    async def waited(message: Message) -> None:
        await asyncio.sleep(0)
        seen.append(message.id)

    message = _message()
    assert _called(lambda given: waited(given), message) == [Sent()]  # noqa: PLW0108 - that is the disguise
    assert seen == [message.id]


def test_what_cannot_be_called_is_refused() -> None:
    """It is told where the destination is made, not at the first message."""
    with pytest.raises(ConfigurationError, match="a str cannot be called"):
        Call("https://crm.example")  # type: ignore[arg-type]  # that is the mistake


def test_it_says_what_it_is() -> None:
    """Operators read the function's name."""
    assert Call(_message).place == "call _message"  # type: ignore[arg-type]  # only its name counts here
