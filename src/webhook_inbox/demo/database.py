"""
Watch PostgreSQL and disturb it from outside, so that each receiver is struck exactly where the story wants.

No receiver holds fault code, and nothing here sleeps and hopes. A lock on a table makes a receiver's process stand in
front of its next statement; a standby that does not exist makes it stand behind a COMMIT that is on disk already; and
``pg_stat_activity`` shows that it stands there. Only then is it killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.events import Invoice
from webhook_inbox.demo.receivers import Receiver
from webhook_inbox.demo.tally import Tally
from webhook_inbox.embedded import EmbeddedPostgres

DATABASE = "demo"
WAIT_SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
LockMode: TypeAlias = Literal["EXCLUSIVE", "ACCESS EXCLUSIVE"]
NO_STANDBY = "a_standby_that_never_answers"


class StoryDatabase:
    """
    Hold the demo's database on *server*.

    The story's own commits never wait for a standby (``synchronous_commit = local``); the receivers' do, by default.
    """

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server

    @property
    def dsn(self) -> str:
        """Give the DSN, a URI with parameters; unchanged by a crash."""
        return self._server.dsn_of(DATABASE)

    @property
    def version(self) -> str:
        """Give the server's version."""
        return self._server.version

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection of the story's own, in autocommit."""
        options = quote("-c synchronous_commit=local")
        return psycopg.connect(f"{self.dsn}&application_name=story&options={options}", autocommit=True)

    def make(self, receivers: Iterable[Receiver]) -> None:
        """Make the database and the tables of *receivers*."""
        with psycopg.connect(self._server.dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        with self.connect() as conn:
            for receiver in receivers:
                conn.execute(receiver.tables_sql.encode())

    def crash(self) -> None:
        """Kill every process of PostgreSQL with SIGKILL; what was committed survives."""
        self._server.kill()

    def recover(self) -> None:
        """Start PostgreSQL again and return when it answers."""
        self._server.start()

    @contextmanager
    def locked(self, tables: Iterable[str], *, mode: LockMode) -> Iterator[int]:
        """
        Hold a lock on *tables* in *mode*; a crash of the server ends it early.

        Yields:
            The process id of the backend that holds it, as those who wait for it see it.
        """
        names = sql.SQL(", ").join(sql.Identifier(*table.split(".")) for table in tables)
        with closing(self.connect()) as conn:
            conn.execute("BEGIN")
            conn.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(names, sql.SQL(mode)))
            yield conn.info.backend_pid

    @contextmanager
    def commits_held(self) -> Iterator[None]:
        """
        Let every receiver's COMMIT reach the disk and then stand still, waiting for a standby that never answers.

        Source: PostgreSQL manual, "Synchronous Replication"; a commit that waits is durable, only its answer is due.
        """
        with self.connect() as conn:
            self._set_standby(conn, NO_STANDBY)
            released = threading.Event()
            canary = threading.Thread(target=self._commit_until, args=[released], daemon=True)
            canary.start()
            try:
                # The setting takes hold when the checkpointer has read it: a commit of our own is the witness.
                self.await_held(["canary"])
                yield
            finally:
                released.set()
                self._set_standby(conn, "")
                canary.join(WAIT_SECONDS_MAX)

    def waiting_for_locks(self, *, held_by: int | None = None) -> Mapping[str, int]:
        """Count the backends that wait for a lock, by receiver's schema; with *held_by* those that it blocks itself."""
        return self._count(
            """
            SELECT application_name, count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock'
              AND (%(held_by)s::integer IS NULL OR %(held_by)s = ANY (pg_blocking_pids(pid)))
            GROUP BY application_name
            """,
            {"held_by": held_by},
        )

    def await_blocked(self, receivers: Iterable[Receiver], *, held_by: int) -> None:
        """Return when a backend of each of *receivers* stands in front of the lock that *held_by* holds."""
        schemas = {receiver.schema for receiver in receivers}
        until(
            lambda: schemas <= self.waiting_for_locks(held_by=held_by).keys(), "a receiver never met the lock"
        )

    def await_held(self, schemas: Iterable[str]) -> None:
        """Return when a backend of each of *schemas* stands behind a commit that is on disk."""
        wanted = set(schemas)
        until(lambda: wanted <= self._held().keys(), "a receiver never came to its commit")

    def await_gone(self, receivers: Iterable[Receiver]) -> None:
        """Return when no backend serves *receivers* any more; their processes are dead."""
        schemas = [receiver.schema for receiver in receivers]
        statement = """
            SELECT application_name, count(*) FROM pg_stat_activity
            WHERE application_name = ANY (%(schemas)s) GROUP BY application_name
        """
        until(lambda: not self._count(statement, {"schemas": schemas}), "a dead receiver's backend stays")

    def states(self, receiver: Receiver, event_ids: Iterable[str]) -> Mapping[str, str]:
        """Give the state of each of *event_ids* in the inbox of *receiver*."""
        inbox = sql.Identifier(receiver.inbox_schema, "inbox")
        statement = sql.SQL("SELECT event_id, state FROM {} WHERE event_id = ANY (%s)").format(inbox)
        with self.connect() as conn:
            return dict(conn.execute(statement, [list(event_ids)]).fetchall())

    def tally(
        self, receiver: Receiver, due: Mapping[Invoice, int], *, only: Iterable[Invoice] | None = None
    ) -> Tally:
        """Count what *receiver* has booked against what is *due*; *only* narrows to some of the invoices."""
        statement = files("webhook_inbox.demo").joinpath("count.sql").read_bytes()
        params = {
            "invoices": [invoice.id for invoice in due],
            "due": list(due.values()),
            "amounts": [invoice.amount for invoice in due],
            "only": None if only is None else [invoice.id for invoice in only],
        }
        with self.connect() as conn, conn.cursor(row_factory=class_row(Tally)) as cursor:
            cursor.execute(
                "SELECT set_config('search_path', %s, false)", [f"{receiver.schema}, {receiver.inbox_schema}"]
            )
            found = cursor.execute(statement, params).fetchone()
        if found is None:
            raise StoryError("the count came back empty")
        return found

    def _held(self) -> Mapping[str, int]:
        return self._count(
            """
            SELECT application_name, count(*) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' GROUP BY application_name
            """,
            {},
        )

    def _count(self, statement: str, params: Mapping[str, object]) -> Mapping[str, int]:
        with self.connect() as conn:
            return dict(conn.execute(statement.encode(), params).fetchall())

    def _set_standby(self, conn: psycopg.Connection[Any], name: str) -> None:
        conn.execute(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(sql.Literal(name)))
        conn.execute("SELECT pg_reload_conf()")

    def _commit_until(self, released: threading.Event) -> None:
        with (
            suppress(psycopg.OperationalError),  # the story was broken off
            psycopg.connect(f"{self.dsn}&application_name=canary", autocommit=True) as conn,
        ):
            while not released.is_set():
                conn.execute("SELECT pg_logical_emit_message(true, 'demo', 'is a commit held?')")


def until(condition: Callable[[], bool], otherwise: str) -> None:
    """
    Return when *condition* holds.

    Raises:
        StoryError: It does not hold after WAIT_SECONDS_MAX; the text is *otherwise*.
    """
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise StoryError(f"{otherwise} within {WAIT_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)
