"""Hand each message to a Python function, for calls to other APIs under an idempotency key."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet


class Call:
    """
    Call *function* with each message; it is sent when the function returns.

    The function steers as a handler does: ``NotYet`` has the message come again later, ``GiveUp`` makes it dead,
    ``Ignore`` is as good as sent. Whatever else it raises is retried. It may be called twice for one message, so what
    it calls gets ``message.idempotency_key``.

    Args:
        function: ``def``, run on a thread, or ``async def``.
        concurrency_max: Calls that run at once in one relay.
        seconds_max: Seconds that one call may take; past that the message is sent again. A ``def`` cannot be stopped:
            its thread goes on.

    Raises:
        ConfigurationError: It is no function.
    """

    def __init__(
        self, function: Callable[[Message], Any], *, concurrency_max: int = 10, seconds_max: float = 30.0
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"Call(function): a {type(function).__name__} cannot be called")
        self._function = function
        self._awaited = inspect.iscoroutinefunction(function)
        self._threads: ThreadPoolExecutor | None = None
        self.place = f"call {getattr(function, '__qualname__', type(function).__name__)}"
        self.limits = Limits(batch_messages_max=1, batches_max=concurrency_max, send_seconds_max=seconds_max)

    async def open(self) -> None:
        """Make the threads that a ``def`` runs on."""
        if not self._awaited and self._threads is None:
            self._threads = ThreadPoolExecutor(
                self.limits.batches_max, thread_name_prefix="webhook-inbox-call"
            )

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Call the function with each of *messages*."""
        return await asyncio.gather(*(self._called(each) for each in messages))

    async def close(self) -> None:
        """Let go of the threads; a call that is under way is not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    async def _called(self, message: Message) -> Verdict:
        try:
            await self._call(message)
        except Ignore:
            return Sent()
        except GiveUp as steering:
            return Failed(str(steering.reason), permanent=True)
        except NotYet as steering:
            return Failed(str(steering.reason), retry_in_seconds=steering.retry_in_seconds)
        except Exception as error:  # noqa: BLE001 - whatever the function raises is why it failed
            return Failed(str(describe(error)))
        return Sent()

    async def _call(self, message: Message) -> None:
        if self._threads is None:
            await self._function(message)
            return
        returned = await asyncio.get_running_loop().run_in_executor(self._threads, self._function, message)
        if inspect.isawaitable(returned):  # a callable object, or a partial, that is async after all
            await returned
