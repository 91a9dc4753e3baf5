"""
Wake workers in other processes after a commit: throttled, outside of every transaction that holds an event,
and only a hint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.protocol.lease import notify
from webhook_inbox.sql.statements import Statements

PAUSE_SECONDS = 0.02
_AFTER_FAILURE_SECONDS = 5.0


class Notifier:
    """
    Send at most one notification in ``PAUSE_SECONDS``, and one after the last event.

    NOTIFY takes a database-wide lock at commit, so it must not be part of a hot transaction; here it has a
    session of its own.

    Args:
        driver: Makes a driver with one connection that nobody else uses.
        channel: What workers listen to.
        sql: The statements, rendered for the inbox's schema.
    """

    def __init__(self, driver: Callable[[], Driver], *, channel: str, sql: Statements) -> None:
        self._make_driver = driver
        self._channel = channel
        self._sql = sql
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def send_soon(self) -> None:
        """Have a notification sent; never waits, never fails."""
        self._due.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._stop.clear()
                    thread = threading.Thread(target=self._send, name="webhook-inbox-notifier", daemon=True)
                    with suppress(RuntimeError):  # no more threads are to be had: the next event tries again
                        thread.start()
                        self._thread = thread

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            self._due.set()
            thread.join(timeout=1.0)

    def _send(self) -> None:
        driver = self._make_driver()
        try:
            while not self._stop.is_set():
                self._due.wait()
                self._due.clear()
                if self._stop.is_set():
                    return
                try:
                    driver.run(lambda: notify(self._channel, self._sql))
                    self._stop.wait(PAUSE_SECONDS)
                except Exception:  # noqa: BLE001 - a thread that ended would never be replaced
                    # Workers poll; the receiver says that the database is away.
                    self._stop.wait(_AFTER_FAILURE_SECONDS)
        finally:
            driver.close()
