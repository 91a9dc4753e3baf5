"""Deliver to an inbox as its providers would, work off what is due, and look at what came of it."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Self, Unpack

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.deliveries import URL, Payload, Sending, believe_test_keys, signed
from webhook_inbox.testing.signers import Signed, Signer
from webhook_inbox.testing.witness import (
    OutboxMessage,
    RecordedEvent,
    Review,
    bring_forward,
    named,
    read_events,
    read_outbox,
    read_reviews,
    start_afresh,
)

# pytest shows the test's own line, and none of ours, where something is used wrongly.
__tracebackhide__ = True


class AsyncInboxTester:
    """
    Test the handlers of *inbox*, on the event loop of the test: ``async with AsyncInboxTester(inbox) as tester``.

    Everything goes through the inbox's own code, verification included, and to its own database. Sources whose provider
    signs with a private key (Discord, SendGrid, SNS, ...) believe a key of the test's meanwhile. What handlers raise
    is printed with its traceback, which pytest shows where the test fails.

    Args:
        inbox: With its endpoints and handlers, on a database for tests.
        fresh: Bring the schema up and empty our tables first, for a database that several tests share. Refused unless
            the database's name has the word ``test`` in it.
        signers: By provider, how to sign for sources of your own.

    Attributes:
        errors: What handlers, and whatever else made a delivery fail, have raised so far, in order.
    """

    def __init__(
        self, inbox: Inbox, *, fresh: bool = False, signers: Mapping[str, Signer] | None = None
    ) -> None:
        self._inbox = inbox
        self._fresh = fresh
        self._signers = dict(signers or {})
        self._sql = Statements.of(inbox.schema)
        self._keys: dict[str, str] = {}
        self._open = AsyncExitStack()
        self.errors: list[BaseException] = []
        # The kit looks behind the door, as the library's own tests do: nothing of this is for production code.
        self._endpoints = inbox._endpoints  # noqa: SLF001
        self._perform = inbox._service.perform  # noqa: SLF001
        self._database = inbox._database  # noqa: SLF001
        self._hooks = inbox._hooks.on_error  # noqa: SLF001

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            opening.enter_context(_briefly_connected(self._database))
            await opening.enter_async_context(self._inbox.running())
            if self._fresh:
                await self._perform(lambda: start_afresh(self._inbox.schema))
            self._hooks.append(self._heard)
            opening.callback(self._hooks.remove, self._heard)
            for name, endpoint in self._endpoints.items():
                source = endpoint.plan.source
                believed = source.secrets
                self._keys[name] = believe_test_keys(source)
                if self._keys[name]:
                    opening.callback(setattr, source, "secrets", believed)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def deliver(self, endpoint: str, payload: Payload, **sending: Unpack[Sending]) -> Receipt:
        """
        Deliver once, signed for the endpoint's source. The same payload again is a redelivery.

        Args:
            endpoint: Its name.
            payload: What the provider sends; see ``signed``, and there the options: ``type``, ``id``, ``secret``,
                ``sent_at``, ``url``.

        Returns:
            What the provider would hear: ``status``, ``outcome``, ``results``.

        Raises:
            ConfigurationError: There is no such endpoint, or it cannot be signed for.
        """
        made = self.signed(endpoint, payload, **sending)
        url = sending.get("url", f"{URL}{endpoint}")
        return await self._inbox.receive(endpoint, headers=made.headers, body=made.body, url=url)

    async def deliver_at_once(
        self, endpoint: str, payload: Payload, *, copies: int, **sending: Unpack[Sending]
    ) -> list[Receipt]:
        """Deliver *copies* of one delivery at the same time; see ``deliver``."""
        return await asyncio.gather(*(self.deliver(endpoint, payload, **sending) for _ in range(copies)))

    def signed(self, endpoint: str, payload: Payload, **sending: Unpack[Sending]) -> Signed:
        """
        Make what ``deliver`` delivers, for the test client of your framework: ``post(url, body, headers)``.

        Raises:
            ConfigurationError: As ``deliver``.
        """
        if endpoint not in self._endpoints:
            there = ", ".join(self._endpoints) or "none"
            raise ConfigurationError(f"the inbox has no endpoint {endpoint!r}; there is {there}")
        source = self._endpoints[endpoint].plan.source
        sending = {"url": f"{URL}{endpoint}", "secret": self._keys.get(endpoint, ""), **sending}
        return signed(source, payload, signer=self._signers.get(source.provider), **sending)

    async def drain(self) -> Counter[str]:
        """
        Run what is due until nothing is, as a worker does; what is to be retried later is left for ``bring_forward``.

        Returns:
            How many runs came to what: ``processed``, ``ignored``, ``dead``, ``retrying``.
        """
        outcomes = await self._inbox.work(drain=True)
        return Counter({outcome.value: runs for outcome, runs in outcomes.items()})

    async def relay(self) -> Counter[str]:
        """
        Send what is due of the outbox until nothing is, to the inbox's own destinations, as a relay does.

        Returns:
            How many sends came to what: ``sent``, ``retrying``, ``dead``.

        Raises:
            ConfigurationError: The inbox has no destination.
        """
        states = await self._inbox.relay(drain=True)
        return Counter({state.value: sends for state, sends in states.items()})

    async def bring_forward(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """
        Have everything that is to happen at some time happen so much earlier: retries, their end, a dead event's hold.

        In place of waiting. No clock is moved: the times in the rows are, so that ``now()`` goes on as ever, in your
        tables too.

        Returns:
            How many events are due now.
        """
        return await self._perform(lambda: bring_forward(seconds + 60 * minutes + 3600 * hours, self._sql))

    async def event(self, id: str, *, endpoint: str = "") -> RecordedEvent:
        """
        Give the event with the provider's *id*, as it stands now.

        Raises:
            AssertionError: There is none, or there is one at several endpoints; says which there are.
        """
        return named(id, await self.events(endpoint))

    async def events(self, endpoint: str = "") -> list[RecordedEvent]:
        """Give every event recorded, of one endpoint or of all, oldest first."""
        every = await self._perform(lambda: read_events(self._sql))
        return [event for event in every if endpoint in {"", event.endpoint}]

    async def outbox(self) -> list[OutboxMessage]:
        """Give every message written with ``tx.emit``, in the order of writing."""
        return await self._perform(lambda: read_outbox(self._sql))

    async def reviews(self) -> list[Review]:
        """Give everything that a person was asked to look at, oldest first."""
        return await self._perform(lambda: read_reviews(self._sql))

    def _heard(self, endpoint: str, error: BaseException) -> None:
        self.errors.append(error)
        sys.stderr.write(f"endpoint {endpoint}:\n")
        traceback.print_exception(error)


@contextmanager
def _briefly_connected(database: object) -> Iterator[None]:
    """
    Have Django keep no connection on a thread of the inbox's beyond a transaction, whatever ``CONN_MAX_AGE`` says.

    Those threads end with the tester, and a connection that is left open then keeps the test's database in use.
    """
    if not isinstance(database, Django):
        yield
        return
    from django.db import connections

    settings = connections.databases[database.alias]
    age, settings["CONN_MAX_AGE"] = settings["CONN_MAX_AGE"], 0
    try:
        yield
    finally:
        settings["CONN_MAX_AGE"] = age
