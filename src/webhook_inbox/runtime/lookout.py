"""Tell, once, of what a newcomer forgets and no delivery shows: the schema, and the worker that runs the handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.errors import SchemaVersionError
from webhook_inbox.protocol.lease import is_worked
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.events import NO_WORKER, NOT_READY

# Longer than a worker takes that is started together with the receiver.
LOOK_AFTER_SECONDS = 5.0
T = TypeVar("T")


class Lookout:
    """
    Look at the database on a connection that is closed at once; whatever fails meanwhile, others tell of.

    Args:
        driver: Makes a driver with one connection that nobody else uses.
        schema: Where the tables are.
        sql: The statements, rendered for it.
        name: By which this process holds leases.
        works: Says whether a worker runs in this process.
    """

    def __init__(
        self,
        driver: Callable[[], Driver],
        *,
        schema: str,
        sql: Statements,
        name: str,
        works: Callable[[], bool],
    ) -> None:
        self._make_driver = driver
        self._schema = schema
        self._sql = sql
        self._name = name
        self._works = works
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def see_schema(self) -> None:
        """Tell of a schema that is not there, or that this release cannot serve."""
        try:
            self._ask(lambda: check_schema(self._schema))
        except SchemaVersionError as error:
            NOT_READY.log(error)
        except Exception:  # noqa: BLE001 - a database that is away is told of by the delivery that needs it
            return

    def see_worker_soon(self) -> None:
        """Have it looked, the first time that this is called and a while later, whether a worker runs anywhere."""
        if self._timer is not None:
            return
        with self._lock:
            if self._timer is None:
                timer = threading.Timer(LOOK_AFTER_SECONDS, self._see_worker)
                timer.name, timer.daemon = "webhook-inbox-lookout", True
                with suppress(RuntimeError):  # no more threads are to be had: the next event tries again
                    timer.start()
                    self._timer = timer

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _see_worker(self) -> None:
        if self._works():
            return
        try:
            worked = self._ask(lambda: is_worked(self._sql, besides=self._name))
        except Exception:  # noqa: BLE001 - as above; a hint is nothing to fail for
            return
        if not worked:
            NO_WORKER.log(self._schema)

    def _ask(self, plan: Callable[[], Plan[T]]) -> T:
        driver = self._make_driver()
        try:
            return driver.run(plan)
        finally:
            driver.close()
