"""
Give up a connection that has gone silent.

libpq waits for ever for a server whose side of the connection is up and says nothing: a server that is frozen, a proxy
that lost what was behind it. Such a connection would keep its place in the pool, its thread and its event's key until
the process ends. But every plan tells the server how long a statement may take and how long it may pause; a step that
is not answered ``SILENCE_SECONDS`` after that limit is not going to be. Its socket is then shut down beneath the
driver, whose wait ends as with any connection that is lost: 503, the commit's fate unknown, the resend settles it
(P-ACK).

A handler that does not end even then, on its thread, is abandoned: its connection is closed, so that nothing of it can
be committed any more, and its place in the pool is free (P-FLOW).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from webhook_inbox.protocol.steps import Begin, Run, Step, parts

SILENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.25


class Connection(Protocol):
    """Name what is needed of a driver's connection."""

    @property
    def closed(self) -> bool:
        """Say whether it is unusable."""
        ...

    def fileno(self) -> int:
        """Give the number of its socket."""
        ...


class Wait:
    """
    Hold what one plan waits for.

    Attributes:
        given_up: Whether the connection went silent.
    """

    __slots__ = ("_abandon", "_conn", "_deadline", "_in_handler", "_step_seconds_max", "given_up")

    def __init__(self, conn: Connection, abandon: Callable[[], None] | None = None) -> None:
        self._conn = conn
        self._abandon = abandon
        self._in_handler = False
        self._step_seconds_max: float | None = None
        self._deadline: float | None = None
        self.given_up = False

    def expect(self, step: Step) -> None:
        """Expect the end of *step* within the time that its transaction's ``Begin`` allows, and ``SILENCE_SECONDS``."""
        for part in parts(step):
            if isinstance(part, Begin):
                self._step_seconds_max = part.seconds_max
        self._in_handler = isinstance(parts(step)[-1], Run)
        seconds = self._step_seconds_max
        self._deadline = None if seconds is None else time.monotonic() + seconds + SILENCE_SECONDS

    def look(self) -> None:
        """Shut the socket down where the answer is overdue; abandon a handler that does not end even so."""
        if self._deadline is None:
            return
        late = time.monotonic() - self._deadline
        if late >= 0:
            self.give_up()
        if late >= SILENCE_SECONDS and self._in_handler and self._abandon is not None:
            abandon, self._abandon = self._abandon, None
            with suppress(Exception):  # as below
                abandon()

    def give_up(self) -> None:
        """Shut the socket down now."""
        if self.given_up:
            return
        self.given_up = True
        with suppress(
            Exception
        ):  # whatever a driver raises for a connection that has ended by itself meanwhile
            if not self._conn.closed:
                with socket.socket(fileno=os.dup(self._conn.fileno())) as copy:
                    copy.shutdown(socket.SHUT_RDWR)


class Watch:
    """Watch over every plan of one driver, from a thread that lives while there is a plan to watch over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: set[Wait] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, conn: Connection, abandon: Callable[[], None] | None = None) -> Iterator[Wait]:
        """Watch over a plan on *conn* while the block runs; call *abandon* when its handler does not come back."""
        wait = Wait(conn, abandon)
        with self._lock:
            if self._thread is not None and not self._thread.is_alive():
                # After a fork: no thread came along, and what the parent waits for is the parent's to give up.
                self._thread, self._waits = None, set()
            self._waits.add(wait)
            if self._thread is None:
                self._start()
        try:
            yield wait
        finally:
            # Under the lock: once this plan has ended, nobody shuts down what the next one borrows.
            with self._lock:
                self._waits.discard(wait)

    def _start(self) -> None:
        thread = threading.Thread(target=self._look, name="webhook-inbox-watch", daemon=True)
        with suppress(RuntimeError):  # no more threads are to be had: the next plan tries again
            thread.start()
            self._thread = thread

    def give_up(self) -> None:
        """Give up every connection on which a plan is under way; the server rolls back what it has not committed."""
        with self._lock:
            for wait in self._waits:
                wait.give_up()

    def _look(self) -> None:
        while True:
            with self._lock:
                if not self._waits:
                    self._thread = None
                    return
                for wait in self._waits:
                    wait.look()
            time.sleep(_LOOK_SECONDS)
