"""Run a plan now and then, on a connection that is opened for it and closed after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import psycopg

from webhook_inbox.drivers.driver import tell_nobody
from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.drivers.silence import Watch
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import Plan

# The least that libpq takes for an answer.
_CONNECT_SECONDS_MAX = 2
T = TypeVar("T")


class OnceDriver:
    """
    Run each plan on a connection of its own; see ``Driver``.

    There is no pool and so no thread of one: this works while the interpreter ends, when none can be started any more.

    Args:
        dsn: In libpq's form.
        probe: Told each fault point.
    """

    def __init__(self, dsn: str, *, probe: Probe = no_probe) -> None:
        self._dsn = dsn
        self._probe = probe
        self._watch = Watch()

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:
        """Run a fresh plan to its end; see ``Driver.run``."""
        try:
            conn = psycopg.connect(
                libpq_dsn(self._dsn), connect_timeout=_CONNECT_SECONDS_MAX, prepare_threshold=None
            )
        except psycopg.Error as error:
            raise store_error(error, broken=True) from error
        with closing(conn), self._watch.over(conn, abandoned) as wait:
            return PsycopgRunner(conn, probe=self._probe, wait=wait).run(plan())

    def close(self) -> None:
        """Close nothing: no connection outlives its plan."""

    def give_up(self) -> None:
        """Cut the connections of plans that are under way; see ``Driver.give_up``."""
        self._watch.give_up()
