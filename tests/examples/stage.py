"""Run an example in processes of its own, deliver to it, kill it, and see what is in its database."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.examples.apps import Example
from tests.fixtures.cli import SECONDS_MAX
from tests.fixtures.programs import eventually
from webhook_inbox.testing import signed

#: An advisory lock that the test holds while a handler shall be at work.
GATE = 7
HOLD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;
CREATE TRIGGER hold AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION hold();
"""
#: A sequence counts what is rolled back, too.
FAIL_ONCE = """
CREATE SEQUENCE runs;
CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF nextval('public.runs') = 1 THEN RAISE EXCEPTION 'the first time'; END IF; RETURN NEW; END $$;
CREATE TRIGGER fail_once BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION fail_once();
"""


class Stage:
    """
    Hold one example on a database of its own.

    Attributes:
        witness: A connection of the test's own.
        environment: Of its processes.
    """

    def __init__(
        self, example: Example, dsn: str, *, inline: bool, environment: dict[str, str], logs: Path
    ) -> None:
        self.example = example
        self.inline = inline
        self.logs = logs
        self.witness: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True)
        self._port = free_port()
        self._running: list[subprocess.Popen[bytes]] = []
        self._senders = ThreadPoolExecutor(8)
        self.environment = {
            **environment,
            **{key: value.format(url=self.url) for key, value in example.settings.items()},
            **({example.inline: "1"} if inline else {}),
            "DATABASE_URL": example.database(dsn),
            "WEBHOOK_INBOX_LEASE_SECONDS": "2",  # a killed worker's events are taken over soon
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        }

    @property
    def url(self) -> str:
        """Where the provider posts to."""
        return f"http://127.0.0.1:{self._port}{self.example.path}"

    def migrate(self) -> None:
        """Bring the database up as the README says."""
        for command in self.example.migrate:
            subprocess.run(
                shlex.split(command),
                cwd=self.example.home,
                env=self.environment,
                check=True,
                timeout=SECONDS_MAX,
            )
        if self.example.tables:
            self.witness.execute((self.example.home / self.example.tables).read_bytes())

    def start(self) -> None:
        """Start the server, and the worker where it is a process of its own; wait until the server listens."""
        worker = "" if self.inline else self.example.worker
        for name, command in {"serve": self.example.serve, "worker": worker}.items():
            if command:
                self._running.append(self._start(name, command))
        eventually(self._listens, what=f"{self.example.folder} listens; see {self.logs}")

    def _start(self, name: str, command: str) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                shlex.split(command.format(port=self._port)),
                cwd=self.example.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _listens(self) -> bool:
        assert all(process.poll() is None for process in self._running), self.said()
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True

    def said(self) -> str:
        """What the processes have written."""
        return "\n".join(path.read_text() for path in sorted(self.logs.glob("*.log")))

    def kill(self) -> None:
        """End every process as by ``kill -9``."""
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS_MAX)
        self._running.clear()

    def deliver(self, event_id: str) -> httpx.Response:
        """Deliver the example's event under this id, once."""
        example = self.example
        made = signed(
            example.source(self.url),
            example.payload(event_id),
            id=event_id,
            type=example.event_type,
            secret=example.secret,
            url=self.url,
        )
        return httpx.post(self.url, content=made.body, headers=dict(made.headers), timeout=SECONDS_MAX)

    def send(self, event_id: str) -> Future[httpx.Response]:
        """Deliver, beside the test."""
        return self._senders.submit(self.deliver, event_id)

    def effects(self, event_id: str) -> tuple[int, int]:
        """How many rows the handler has written for an event, and how many messages."""
        rows = self.witness.execute(
            f"SELECT count(*) FROM {self.example.table} WHERE event_id LIKE %s", [f"{event_id}%"]
        ).fetchone()
        messages = self.witness.execute(
            "SELECT count(*) FROM webhooks.outbox o JOIN webhooks.inbox i ON i.id = o.inbox_id "
            "WHERE i.event_id LIKE %s",
            [f"{event_id}%"],
        ).fetchone()
        assert rows is not None
        assert messages is not None
        return rows[0], messages[0]

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Hold every handler after its business write, before the commit, while the block runs."""
        self.witness.execute(HOLD.format(table=self.example.table).encode())
        self.witness.execute("SELECT pg_advisory_lock(%s)", [GATE])
        try:
            yield
        finally:
            self.witness.execute("SELECT pg_advisory_unlock(%s)", [GATE])

    def held(self) -> bool:
        """Whether a handler waits at the gate."""
        found = self.witness.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchone()
        return found == (1,)

    def alone(self) -> bool:
        """Whether nobody else is connected: the server has noticed that those who were killed are gone."""
        found = self.witness.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
        return found == (0,)

    def close(self) -> None:
        """End everything."""
        self.kill()
        self._senders.shutdown()
        self.witness.close()


def free_port() -> int:
    """A port on which nobody listens just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
