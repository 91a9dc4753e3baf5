"""Take what was counted to the database, once a minute and at the end, where no delivery waits for it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.model.failure import shown
from webhook_inbox.protocol.counts import add_counts
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.events import COUNTS_KEPT
from webhook_inbox.telemetry.tally import Tally

EVERY_SECONDS = 60.0
_STOP_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class _Writer:
    """Hold the thread that is going to write, and what has it do so at once and be the last."""

    thread: threading.Thread
    at_once: threading.Event


class Counting:
    """
    Write the counts of *tally* a minute after the first that is not written, on a connection that is closed at once.

    A process in which nothing is counted has no thread for it and writes nothing. One that ends without a ``stop``, as
    a WSGI server's does, is stopped by the interpreter's own end: the thread is there by then, as none can be started
    at that time.

    Args:
        driver: Makes a driver that starts no thread, with one connection that nobody else uses.
        tally: Tells this one, and no other, that something was counted.
        sql: The statements, rendered for the inbox's schema.
    """

    def __init__(self, driver: Callable[[], Driver], *, tally: Tally, sql: Statements) -> None:
        self._make_driver = driver
        self._tally = tally
        self._sql = sql
        self._lock = threading.Lock()
        self._writer: _Writer | None = None
        tally.tell(self.write_soon)
        weakref.finalize(self, _stop, weakref.ref(self))

    def write_soon(self) -> None:
        """Have it written within a minute; never waits, never fails."""
        if self._writer is not None:
            return
        with self._lock:
            if self._writer is None:
                at_once = threading.Event()
                thread = threading.Thread(
                    target=self._write_in_time, args=(at_once,), name="webhook-inbox-counting", daemon=True
                )
                with suppress(RuntimeError):  # no more threads are to be had: the next count tries again
                    thread.start()
                    self._writer = _Writer(thread, at_once)

    def stop(self) -> None:
        """Write what is left, and wait ``_STOP_SECONDS_MAX`` for it at most: the server may not answer any more."""
        writer = self._writer
        if writer is not None:
            writer.at_once.set()
            writer.thread.join(timeout=_STOP_SECONDS_MAX)

    def _write_in_time(self, at_once: threading.Event) -> None:
        at_once.wait(EVERY_SECONDS)
        self._write()
        with self._lock:
            self._writer = None
        if self._tally and not at_once.is_set():  # what was counted meanwhile, or could not be written
            self.write_soon()

    def _write(self) -> None:
        """Write what was counted; where it cannot be, it is counted still."""
        if not (counts := self._tally.take()):
            return
        try:
            driver = self._make_driver()
            try:
                driver.run(partial(add_counts, counts, self._sql))
            finally:
                driver.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again with what is counted next
            COUNTS_KEPT.log(shown(error))
            self._tally.give_back(counts)


def _stop(counting: weakref.ref[Counting]) -> None:
    """Stop it at the interpreter's end, if it is still there; where it has gone before, there was nothing to write."""
    if (there := counting()) is not None:
        there.stop()
