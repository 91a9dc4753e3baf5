"""
Hold what one server process runs: the receiver on its socket; beside it, on another one, the pages for operators; and,
where they are asked for, a worker and a relay, each on connections of its own.

Nothing of the operators' pages can be reached through the receiver's port, whatever is asked for there.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn

from webhook_inbox.cli.failures import report, report_defect
from webhook_inbox.cli.load import load_inbox
from webhook_inbox.cli.logs import guard_foreign_loggers
from webhook_inbox.cli.output import say, visible
from webhook_inbox.cli.sockets import bind_first_free
from webhook_inbox.cli.stop_signals import SIGNALLED, end_soon
from webhook_inbox.errors import InboxError
from webhook_inbox.http.messages import Message, Receive, Scope, Send
from webhook_inbox.inbox import Inbox

_OPS_CONCURRENCY_MAX = 100
_STARTUP_FAILED = 3  # uvicorn's own code: its supervisor then stops, where any other makes it try again


class ServedApp:
    """
    Serve an inbox's receiver and, for as long as it runs, its operators' pages, a worker and a relay.

    Args:
        inbox: What is served.
        ops: A bound socket for the operators' pages; None: no such pages.
        with_worker: Whether to run the handlers of recorded events too.
        with_relay: Whether to send the messages of the outbox too.
    """

    def __init__(
        self, inbox: Inbox, ops: socket.socket | None, *, with_worker: bool, with_relay: bool
    ) -> None:
        guard_foreign_loggers()
        self._inbox = inbox
        self._loops: list[Callable[[asyncio.Event], Coroutine[Any, Any, object]]] = []
        self._loops += [lambda stop: inbox.work(stop=stop)] if with_worker else []
        self._loops += [lambda stop: inbox.relay(stop=stop)] if with_relay else []
        self._receiver = inbox.asgi()
        self._ops_app = inbox.ops()
        self._ops = ops

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            if self._ops is not None:
                receive = _then_stop(receive, self._start_ops(self._ops))
            if self._loops:
                receive = _then_stop(receive, self._start_loops())
        await self._receiver(scope, receive, send)

    def _start_loops(self) -> Callable[[], Awaitable[object]]:
        """Work from now on; the first signal stops that, while the server still finishes its deliveries."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        working = {asyncio.create_task(each(stop)) for each in self._loops}
        for each in working:
            each.add_done_callback(_tell_failure)
        _also_at_signals(lambda: loop.call_soon_threadsafe(stop.set))

        async def end() -> None:
            stop.set()
            await asyncio.wait(working)
            end_soon()

        return end

    def _start_ops(self, listener: socket.socket) -> Callable[[], Awaitable[object]]:
        config = uvicorn.Config(
            self._ops_app,
            lifespan="off",
            log_config=None,
            access_log=False,
            ws="none",
            limit_concurrency=_OPS_CONCURRENCY_MAX,
            server_header=False,
            timeout_graceful_shutdown=1,
            http="webhook_inbox.cli.head_guard:GuardedHttp",
        )
        server = _ServerBeside(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))

        async def end() -> None:
            server.should_exit = True
            await serving

        return end


def _tell_failure(working: asyncio.Task[Any]) -> None:
    """Say so when a worker or a relay failed; deliveries are recorded all the same, and messages kept."""
    if not working.cancelled() and (error := working.exception()) is not None:
        report(error) if isinstance(error, InboxError) else report_defect(error)
        say("a worker or relay of this process runs no more; deliveries are still recorded, messages kept")


def _then_stop(receive: Receive, end: Callable[[], Awaitable[object]]) -> Receive:
    """Await *end* when *receive* says that the process stops, before others hear it: the loop ends soon after."""

    async def received() -> Message:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            await end()
        return message

    return received


def _also_at_signals(stop: Callable[[], object]) -> None:
    """
    Call *stop* too when a signal tells this process to stop; the server's own handlers are in place by now.

    The second of a kind ends a process that has no supervisor at once: what is still held returns when its lease ends.
    Beneath a supervisor a second one means nothing: it, systemd and a terminal each pass the same wish on.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    alone = multiprocessing.parent_process() is None
    heard: set[int] = set()
    for each in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(each)

        def both(number: int, frame: FrameType | None, before: object = before) -> None:
            if alone and number in heard:
                os._exit(SIGNALLED + number)
            heard.add(number)
            stop()
            if callable(before):
                before(number, frame)

        signal.signal(each, both)


class _ServerBeside(uvicorn.Server):
    """Serve within a process whose signals are another server's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerApp:
    """
    Make a worker process's app, in that process; uvicorn hands this over and calls it.

    Attributes:
        reference: The user's Inbox, as given to ``serve``.
        ops_host: Where the operators' pages listen.
        ops_ports: Each worker takes the first that is free, so that a scraper reaches every worker; none: no pages.
        with_worker: Whether each runs the handlers of recorded events too.
        with_relay: Whether each sends the messages of the outbox too.
        reloading: Whether a process that does not start is started again when a file changes.
    """

    reference: str
    ops_host: str
    ops_ports: range
    with_worker: bool
    with_relay: bool
    reloading: bool = False

    def __call__(self) -> ServedApp:
        """Give the app; a failure is told in a sentence, and ends the supervisor too."""
        _end_with_parent()
        try:
            inbox = load_inbox(self.reference)
            ops = bind_first_free(self.ops_host, self.ops_ports) if self.ops_ports else None
        except InboxError as error:
            report(error)
            if self.reloading:
                say("it starts again when a file is saved")
            sys.exit(_STARTUP_FAILED)
        if self.reloading:
            say(f"{visible(self.reference)} is loaded")
        return ServedApp(inbox, ops, with_worker=self.with_worker, with_relay=self.with_relay)


def _end_with_parent() -> None:
    """Drain and stop when the supervisor is gone, however it ended; else the port would stay taken."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="webhook-inbox-parent", daemon=True).start()
