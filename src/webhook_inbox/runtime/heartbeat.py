"""
Keep a worker's lease alive, on a thread and a connection of its own.

Nothing that a handler does can stop it: not a lock, not a blocked event loop, not an exhausted pool. It
trusts the lease from the moment at which the last renewal that succeeded was *begun*, on this host's
monotonic clock; how long the lease lasts is measured by the server's clock alone (P-CLOCK).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.failure import shown
from webhook_inbox.protocol.lease import end, renew
from webhook_inbox.protocol.process import Processing, give_back
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

_RENEWALS_A_LEASE = 4
_GIVE_BACK_SECONDS = 1.0
_STOP_SECONDS_MAX = 1.0


class Heartbeat:
    """
    Hold the lease of one incarnation at a time.

    Args:
        driver: Makes a driver with one connection that nobody else uses.
        name: The process's name.
        seconds: How long a lease lasts without renewal.
        sql: The statements, rendered for the inbox's schema.
    """

    def __init__(self, driver: Callable[[], Driver], *, name: str, seconds: float, sql: Statements) -> None:
        self._make_driver = driver
        self._name = name
        self._seconds = seconds
        self._sql = sql
        self._lock = threading.Lock()
        self._worker_id: WorkerId | None = None
        self._trusted_until = 0.0
        self._former: WorkerId | None = None
        self._left: list[tuple[Claim, Processing]] = []
        self._ends: WorkerId | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Give the process's name."""
        return self._name

    @property
    def seconds(self) -> float:
        """Give how long a lease lasts without renewal."""
        return self._seconds

    @property
    def held(self) -> WorkerId | None:
        """Give the incarnation whose lease can be trusted right now, or None."""
        with self._lock:
            return self._worker_id if time.monotonic() < self._trusted_until else None

    @property
    def former(self) -> WorkerId | None:
        """Give the incarnation that was held before and is not ended yet; it is renewed no more."""
        with self._lock:
            if self._worker_id is not None and time.monotonic() >= self._trusted_until:
                self._former, self._worker_id = self._worker_id, None
            return self._former

    def distrust(self, worker_id: WorkerId) -> None:
        """Hold *worker_id* no longer, and end it soon: nobody knows all that it has claimed."""
        with self._lock:
            if self._worker_id == worker_id:
                self._former, self._worker_id, self._trusted_until = worker_id, None, 0.0
        self._wake.set()

    def began(self, worker_id: WorkerId, began_at: float) -> WorkerId:
        """
        Hold a lease whose registration was begun at *began_at* (monotonic seconds), and renew it from now on; unless
        another one came first.

        Returns:
            The incarnation that is held.

        Raises:
            StoreUnavailableError: Nothing could renew it: the process can start no thread.
        """
        with self._lock:
            if self._worker_id is not None and time.monotonic() < self._trusted_until:
                return self._worker_id
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._worker_id, self._trusted_until = worker_id, began_at + self._seconds
            self._former = None
            return worker_id

    def _start(self) -> None:
        self._stop.clear()
        thread = threading.Thread(target=self._beat, name="webhook-inbox-heartbeat", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise StoreUnavailableError(
                "no thread to keep a lease could be started: the process has as many as it may, or ends"
            ) from None
        self._thread = thread

    def give_back_later(self, claim: Claim, to: Processing) -> None:
        """
        Give *claim*, whose run ended without a verdict, back as soon as the database lets us; without cost, as it was
        not the event's fault.
        """
        with self._lock:
            self._left.append((claim, to))
        self._wake.set()

    def stop(self, *, forget: bool) -> None:
        """
        End the thread; *forget* has it give the lease up at once, for a worker that holds nothing any more.

        Waits ``_STOP_SECONDS_MAX`` at most: it may hang on a server that does not answer, and is a daemon.
        """
        with self._lock:
            worker_id, self._worker_id = self._worker_id, None
        self._ends = (worker_id or self._former) if forget else None
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=_STOP_SECONDS_MAX)

    def _beat(self) -> None:
        driver = self._make_driver()
        try:
            while not self._stop.is_set():
                pause = self._seconds / _RENEWALS_A_LEASE
                self._wake.wait(min(pause, _GIVE_BACK_SECONDS) if self._left else pause)
                self._wake.clear()
                if not self._stop.is_set():
                    self._renew(driver)
                    self._end_former(driver)
                    self._give_back(driver)
            self._end(driver)
        finally:
            driver.close()

    def _end(self, driver: Driver) -> None:
        worker_id, self._ends = self._ends, None
        if worker_id is None:
            return
        try:
            driver.run(lambda: end(worker_id, self._sql))
        except Exception as error:  # noqa: BLE001 - its end tells the rest
            events.LEASE_LEFT.log(self._name, shown(error))

    def _end_former(self, driver: Driver) -> None:
        """End what is held no longer: whoever waited for its lease to end would blame what it holds."""
        with self._lock:
            former = self._former
        if former is None:
            return
        with suppress(Exception):  # the next beat tries again
            driver.run(lambda: end(former, self._sql))
            with self._lock:
                if self._former == former:
                    self._former = None

    def _give_back(self, driver: Driver) -> None:
        with self._lock:
            left, self._left = self._left, []
        for claim, to in left:
            held: frozenset[int] = frozenset({claim.id})
            try:
                held = driver.run(partial(give_back, [claim], to))
            except Exception as error:  # noqa: BLE001 - a thread that ended would renew nothing any more
                events.CLAIM_KEPT.log(self._name, shown(error))
            if held:
                with self._lock:
                    self._left.append((claim, to))

    def _renew(self, driver: Driver) -> None:
        with self._lock:
            worker_id = self._worker_id
        if worker_id is None:
            return
        began_at = time.monotonic()
        try:
            renewed = driver.run(lambda: renew(worker_id, self._seconds, self._sql))
        except Exception as error:  # noqa: BLE001 - as above
            events.LEASE_NOT_RENEWED.log(self._name, shown(error))
            return
        with self._lock:
            if not renewed and self._worker_id == worker_id:
                events.LEASE_GONE.log(self._name)
                self._worker_id, self._trusted_until = None, 0.0
            elif renewed and self._worker_id == worker_id:
                self._trusted_until = max(self._trusted_until, began_at + self._seconds)
