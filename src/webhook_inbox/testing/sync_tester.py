"""Test an inbox from plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.testing.deliveries import Payload, Sending
from webhook_inbox.testing.signers import Signed, Signer
from webhook_inbox.testing.tester import AsyncInboxTester
from webhook_inbox.testing.witness import OutboxMessage, RecordedEvent, Review

# pytest shows the test's own line, and none of ours, where something is used wrongly.
__tracebackhide__ = True
T = TypeVar("T")


class InboxTester:
    """
    Test the handlers of *inbox*: ``with InboxTester(inbox) as tester``.

    The inbox runs on an event loop of the tester's own, beside the test's thread; handlers may be ``def`` or ``async
    def``. Where the inbox was given something that is bound to the test's own loop (an ``asyncpg`` pool, an
    ``AsyncConnectionPool``), use ``AsyncInboxTester``, whose arguments and methods these are.
    """

    def __init__(
        self, inbox: Inbox, *, fresh: bool = False, signers: Mapping[str, Signer] | None = None
    ) -> None:
        self._tester = AsyncInboxTester(inbox, fresh=fresh, signers=signers)
        self._open = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def errors(self) -> list[BaseException]:
        """Give what handlers, and whatever else made a delivery fail, have raised so far, in order."""
        return self._tester.errors

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._loop = opening.enter_context(_loop_beside())
            self._wait(self._tester.__aenter__())
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            self._wait(self._tester.__aexit__(kind, error, trace))

    def deliver(self, endpoint: str, payload: Payload, **sending: Unpack[Sending]) -> Receipt:
        """Deliver once, signed; see ``AsyncInboxTester.deliver``."""
        return self._wait(self._tester.deliver(endpoint, payload, **sending))

    def deliver_at_once(
        self, endpoint: str, payload: Payload, *, copies: int, **sending: Unpack[Sending]
    ) -> list[Receipt]:
        """Deliver *copies* of one delivery at the same time; see ``deliver``."""
        return self._wait(self._tester.deliver_at_once(endpoint, payload, copies=copies, **sending))

    def signed(self, endpoint: str, payload: Payload, **sending: Unpack[Sending]) -> Signed:
        """Make what ``deliver`` delivers, for the test client of your framework: ``post(url, body, headers)``."""
        return self._tester.signed(endpoint, payload, **sending)

    def drain(self) -> Counter[str]:
        """Run what is due until nothing is; see ``AsyncInboxTester.drain``."""
        return self._wait(self._tester.drain())

    def relay(self) -> Counter[str]:
        """Send what is due of the outbox until nothing is; see ``AsyncInboxTester.relay``."""
        return self._wait(self._tester.relay())

    def bring_forward(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """Have what is to happen at some time happen so much earlier; see ``AsyncInboxTester.bring_forward``."""
        return self._wait(self._tester.bring_forward(seconds=seconds, minutes=minutes, hours=hours))

    def event(self, id: str, *, endpoint: str = "") -> RecordedEvent:
        """Give one event as it stands now; see ``AsyncInboxTester.event``."""
        return self._wait(self._tester.event(id, endpoint=endpoint))

    def events(self, endpoint: str = "") -> list[RecordedEvent]:
        """Give every event recorded, of one endpoint or of all, oldest first."""
        return self._wait(self._tester.events(endpoint))

    def outbox(self) -> list[OutboxMessage]:
        """Give every message written with ``tx.emit``, in the order of writing."""
        return self._wait(self._tester.outbox())

    def reviews(self) -> list[Review]:
        """Give everything that a person was asked to look at, oldest first."""
        return self._wait(self._tester.reviews())

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            coroutine.close()
            raise ConfigurationError("the tester is not open: with InboxTester(inbox) as tester: ...")
        done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if (error := done.exception()) is not None:
            raise error  # here, so that no frame of result() is shown
        return done.result()


@contextmanager
def _loop_beside() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop on a thread of its own while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="inbox-tester", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
