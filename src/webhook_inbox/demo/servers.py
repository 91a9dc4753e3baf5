"""Run each receiver as a process of its own, so that killing one is a real crash."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import IO

from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.receivers import Receiver

START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 10.0
LOG_BYTES_SHOWN = 1500
#: What a user has set for servers of their own must not reach the demo's.
FOREIGN_PREFIXES = ("PG", "WEBHOOK_INBOX_")


class ReceiverProcess:
    """
    Run a part of one receiver as a process, which ends with us or before.

    Args:
        receiver: Which one.
        database: The DSN of the demo's database.
        secret: The signing secret it shares with the sender.

    Concurrency: One thread's.
    """

    def __init__(self, receiver: Receiver, *, database: str, secret: str) -> None:
        self.receiver = receiver
        self._environment = {
            **outer_environment(os.environ),
            "DATABASE_URL": receiver.dsn(database),
            "STRIPE_WEBHOOK_SECRET": secret,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def start(self, module: str, app: str) -> None:
        """Start *module* of this package for *app*."""
        # A pipe would fill up and stop a receiver that writes many tracebacks; a nameless file is gone with us.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"webhook_inbox.demo.{module}", app],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,  # the terminal's Ctrl-C is for us alone
        )

    def kill(self) -> None:
        """Kill the process with SIGKILL, as a crash or an impatient supervisor would; harmless when it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait(END_SECONDS_MAX)
        for stream in (process.stdin, process.stdout, self._log):
            if stream is not None:
                stream.close()

    def log_tail(self) -> str:
        """Give the end of what the process wrote on stderr."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()[-LOG_BYTES_SHOWN:].decode(errors="replace")


class ReceiverServer(ReceiverProcess):
    """
    Serve one receiver on a free port of 127.0.0.1.

    Concurrency: One thread's; requests come from any.
    """

    def __init__(self, receiver: Receiver, *, database: str, secret: str) -> None:
        super().__init__(receiver, database=database, secret=secret)
        self.port = 0

    @property
    def url(self) -> str:
        """Give the address that the provider posts to."""
        return f"http://127.0.0.1:{self.port}/stripe"

    def launch(self) -> None:
        """Start the process; ``await_ready`` must follow."""
        self.start("child", self.receiver.app)

    def await_ready(self) -> None:
        """
        Return when the application serves.

        Raises:
            StoryError: It ended, or does not serve in time; the text holds the end of what it wrote.
        """
        assert self._process is not None  # noqa: S101 - launch() comes first
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        readable, _, _ = select.select([self._process.stdout], [], [], START_SECONDS_MAX)
        line = self._process.stdout.readline() if readable else b""
        if not line:
            raise StoryError(f"the receiver {self.receiver.name!r} did not start:\n{self.log_tail()}")
        self.port = int(line)


class ReceiverWorker(ReceiverProcess):
    """Run the handlers of one receiver's recorded events: ``webhook-inbox worker``."""

    def launch(self) -> None:
        """Start the process; that it works shows in the database."""
        self.start("child_worker", self.receiver.worker)


def start_all(servers: Iterable[ReceiverServer]) -> None:
    """Start *servers* beside one another and return when all serve."""
    waiting = list(servers)
    for server in waiting:
        server.launch()
    for server in waiting:
        server.await_ready()


def outer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Give *environment* without what belongs to the user's own databases and inboxes."""
    return {name: value for name, value in environment.items() if not name.startswith(FOREIGN_PREFIXES)}
