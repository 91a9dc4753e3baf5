"""Run a real PostgreSQL beside the program that needs one, for a demo, for development and for tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from webhook_inbox.embedded import watchdog
from webhook_inbox.embedded.address import Address
from webhook_inbox.embedded.binaries import Binaries, Choice, find_binaries
from webhook_inbox.embedded.cluster import DATABASE, SUPERUSER, data_major, make_cluster
from webhook_inbox.embedded.folders import Folders, open_folders
from webhook_inbox.embedded.launch import Options, launch
from webhook_inbox.embedded.lock import release_lock
from webhook_inbox.embedded.process import (
    StopMode,
    dismiss_watchdog,
    end_process,
    kill_process,
    log_tail,
    set_watchdog,
)
from webhook_inbox.embedded.staging import stage
from webhook_inbox.errors import EmbeddedPostgresError

T = TypeVar("T")


class EmbeddedPostgres:
    """
    Run one PostgreSQL server that lives at most as long as this process.

    It listens on a Unix socket that only the account we run as (and root) can reach. A watchdog child ends it and
    removes what is temporary when this process ends, be it by SIGKILL. Started by root, it runs as an unprivileged
    account that exists already. Nothing is taken from PG* or locale variables. For production it is not meant.

    Args:
        directory: Where the data is kept and found again at the next start; made where it does not exist. None: a
            temporary folder, removed at ``stop()``.
        binaries: "machine", "wheel", or the folder of a server's programs; None: see ``find_binaries``. Data that
            exists is served by the version that wrote it.
        durable: False turns ``fsync`` and ``full_page_writes`` off, and keeps temporary data in memory where there is
            room, for tests: a commit then survives the death of the server but not of the operating system.
            ``synchronous_commit`` stays on either way.
        tcp: True also listens on a free port of 127.0.0.1, with a random password (``tcp_dsn``), never ``trust``.
        settings: Server settings by name, for instance ``{"max_connections": "20"}``.
        start_seconds_max: From ``start()`` until a query was answered, initdb included.
        stop_seconds_max: What a polite stop may take before the server is killed.

    Concurrency: Any number of servers beside one another, none waits for another; one object is one thread's at a time.
        In a forked child the object is no longer in charge: ``stop()`` does nothing there.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        binaries: Choice | str | None = None,
        durable: bool = True,
        tcp: bool = False,
        settings: Mapping[str, str] | None = None,
        start_seconds_max: float = 60.0,
        stop_seconds_max: float = 30.0,
    ) -> None:
        self._directory = None if directory is None else Path(directory)
        self._choice = binaries
        self._options = Options(durable=durable, tcp=tcp, settings=dict(settings or {}))
        self._start_seconds_max = start_seconds_max
        self._stop_seconds_max = stop_seconds_max
        self._folders: Folders | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._binaries: Binaries | None = None
        self._address: Address | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"EmbeddedPostgres({self._directory or 'temporary'}, {state})"

    @property
    def running(self) -> bool:
        """Say whether the server's main process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def dsn(self) -> str:
        """Give the URI of the database "postgres", as superuser, over the socket; unchanged by kill and restart."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str, *, user: str = SUPERUSER) -> str:
        """Give the URI of *database* on this server, for *user*, who needs no password on the socket."""
        return self._started(self._address).socket_uri(database, user)

    @property
    def tcp_dsn(self) -> str:
        """Give the URI over TCP, password included: keep it out of logs. Needs ``tcp=True``."""
        if not self._options.tcp:
            raise EmbeddedPostgresError("this server does not listen on TCP; ask for it with tcp=True")
        return self._started(self._address).tcp_uri()

    @property
    def binaries(self) -> Binaries:
        """Give the programs that run, where they run: copied out of a folder the server's account cannot enter."""
        return self._started(self._binaries)

    @property
    def version(self) -> str:
        """Give the server's version, for instance "18.6"."""
        return ".".join(map(str, self.binaries.version))

    @property
    def data(self) -> Path:
        """Give the data folder."""
        return self._started(self._folders).data

    def log_tail(self, lines: int = 20) -> str:
        """Return the last *lines* of the server's log."""
        return log_tail(self._started(self._folders).log, lines)

    def processes(self) -> list[int]:
        """List the server's live processes, the main one first."""
        folders = self._started(self._folders)
        return watchdog.members(folders.token, folders.account.uid)

    def start(self) -> Self:
        """
        Start the server, or bring it back after ``halt()`` or ``kill()``, and return when it answers queries.

        Raises:
            EmbeddedPostgresError: It did not start; whatever this call made is gone again.
        """
        if self.running:
            raise EmbeddedPostgresError("the server runs already")
        deadline = time.monotonic() + self._start_seconds_max
        if self._folders is not None:
            self.kill()  # the main process may have died alone and left others
            self._launch(deadline)
            return self
        try:
            self._open(deadline)
            self._launch(deadline)
        except BaseException:
            self.stop("immediate")
            raise
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """
        End the server and remove what is temporary; stopping twice is harmless.

        Args:
            mode: "smart" waits for clients, "fast" disconnects them, "immediate" leaves recovery to the next start.
        """
        folders, guard = self._folders, self._watchdog
        if folders is None or self._owner != os.getpid():
            return
        try:
            self.halt(mode)
        finally:
            self._folders = self._watchdog = self._address = self._process = None
            clean = guard is None or dismiss_watchdog(guard, folders)
            release_lock(folders.lock)
        if not clean:
            raise EmbeddedPostgresError(
                f"something of the server is left in {', '.join(map(str, folders.temporary))}"
            )

    def halt(self, mode: StopMode = "fast") -> None:
        """Take the server down and keep its data and address, temporary ones too: ``start()`` brings it back."""
        folders = self._in_charge()
        if self._process is not None:
            end_process(self._process, folders, mode=mode, seconds_max=self._stop_seconds_max)
            self._process = None

    def kill(self) -> None:
        """Kill every process of the server with SIGKILL, as a crash would; ``start()`` brings it back."""
        folders = self._in_charge()
        if self._process is not None:
            kill_process(self._process, folders)
            self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Take the server down and bring it back at the same address."""
        self.halt(mode)
        self.start()

    def _started(self, part: T | None) -> T:
        if part is None:
            raise EmbeddedPostgresError("the server has not been started")
        return part

    def _in_charge(self) -> Folders:
        folders = self._started(self._folders)
        if self._owner != os.getpid():
            raise EmbeddedPostgresError(
                f"the server belongs to process {self._owner}, which we were forked from"
            )
        return folders

    def _open(self, deadline: float) -> None:
        if not (sys.platform.startswith("linux") and Path("/proc/self/cmdline").exists()):
            raise EmbeddedPostgresError(
                "the embedded PostgreSQL needs Linux with /proc; give the DSN of another server"
            )
        self._owner = os.getpid()
        folders = self._folders = open_folders(self._directory, durable=self._options.durable)
        self._watchdog = set_watchdog(folders)
        major = data_major(folders.data)
        found = find_binaries(self._choice, major=major)
        if not folders.account.may_run(found.folder / "postgres"):
            found = stage(found, folders.run / "binaries")
        self._binaries = found
        folders.log.unlink(missing_ok=True)
        if major is None:
            sync = self._options.durable and folders.kept
            make_cluster(folders, found, sync=sync, seconds_max=deadline - time.monotonic())

    def _launch(self, deadline: float) -> None:
        launched = launch(
            self._in_charge(), self.binaries, self._options, known=self._address, deadline=deadline
        )
        self._process, self._address = launched.process, launched.address
