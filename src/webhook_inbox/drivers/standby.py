"""
Hear that a commit is on one server alone, though the operator wants it on two.

With ``synchronous_standby_names`` set, the server confirms a commit when its standby has it. Where a time limit or a
cancel ends that wait, the server says so in a warning, and confirms all the same: the commit stands here, and is lost
with this server. Nothing is acknowledged on such a word (P-ACK); the provider sends again, and what is here by then
is a duplicate.

Source: PostgreSQL's ``src/backend/replication/syncrep.c``, ``SyncRepWaitForLSN``. The warning's SQLSTATE is that of any
warning and its text is translated; which function of the server's has raised it, is said in every language.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from webhook_inbox.errors import StoreUnavailableError

_WAITS_FOR_STANDBY = "SyncRepWaitForLSN"


@contextmanager
def confirmed_by_standby(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Iterator[None]:
    """
    Refuse to believe a COMMIT of the block's for which psycopg's *conn* is told that the standby may not have it.

    Raises:
        StoreUnavailableError: It may not.
    """
    heard: list[bool] = []

    def hear(said: psycopg.errors.Diagnostic) -> None:
        heard.append(said.source_function == _WAITS_FOR_STANDBY)

    conn.add_notice_handler(hear)
    try:
        yield
    finally:
        conn.remove_notice_handler(hear)
    _believe(heard)


@contextmanager
def confirmed_to_asyncpg(conn: Any) -> Iterator[None]:  # noqa: ANN401 - asyncpg has no types
    """Do the same for asyncpg's *conn*; see ``confirmed_by_standby``."""
    import asyncpg

    heard: list[bool] = []

    def hear(_: object, said: Any) -> None:  # noqa: ANN401 - as above
        heard.append(getattr(said, "server_source_function", "") == _WAITS_FOR_STANDBY)

    conn.add_log_listener(hear)
    try:
        yield
    finally:
        # A pool has taken a lost connection back by then, and its listeners with it.
        with suppress(asyncpg.InterfaceError):
            conn.remove_log_listener(hear)
    _believe(heard)


def _believe(heard: list[bool]) -> None:
    if any(heard):
        raise StoreUnavailableError(
            "the commit is on this server alone: it has stopped waiting for its synchronous standby"
        )
