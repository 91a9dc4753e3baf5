"""Run a real PostgreSQL beside the program that needs one, for a demo, for development and for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from webhook_inbox.embedded import watchdog
from webhook_inbox.embedded.binaries import Binaries, Choice, find_binaries
from webhook_inbox.embedded.cluster import DATABASE, SUPERUSER, data_major, make_cluster, server_command
from webhook_inbox.embedded.folders import Folders, open_folders
from webhook_inbox.embedded.password import make_password, scram_verifier
from webhook_inbox.embedded.probe import ask
from webhook_inbox.embedded.process import (
    StopMode,
    await_answer,
    dismiss_watchdog,
    end_process,
    kill_process,
    log_tail,
    set_watchdog,
    start_process,
)
from webhook_inbox.embedded.staging import stage
from webhook_inbox.errors import EmbeddedPostgresError

#: Without TCP the port is only a part of the socket's name, and each server has a folder of its own.
SOCKET_PORT = 5432
PORT_TRIES_MAX = 10


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
        self._durable = durable
        self._tcp = tcp
        self._settings = dict(settings or {})
        self._start_seconds_max = start_seconds_max
        self._stop_seconds_max = stop_seconds_max
        self._folders: Folders | None = None
        self._binaries: Binaries | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = SOCKET_PORT
        self._password = ""
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

    # --- what it is -------------------------------------------------------------------------------------------------

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
        host = quote(str(self._opened.run), safe="")
        return (
            f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={host}&port={self._port}"
        )

    @property
    def tcp_dsn(self) -> str:
        """Give the URI over TCP, password included: keep it out of logs. Needs ``tcp=True``."""
        if not self._password:
            raise EmbeddedPostgresError("this server does not listen on TCP; ask for tcp=True")
        return f"postgresql://{SUPERUSER}:{self._password}@127.0.0.1:{self._port}/{DATABASE}?sslmode=disable"

    @property
    def binaries(self) -> Binaries:
        """Give the programs that run, where they run: copied out of a folder the server's account cannot enter."""
        if self._binaries is None:
            raise EmbeddedPostgresError("the server has not been started")
        return self._binaries

    @property
    def version(self) -> str:
        """Give the server's version, for instance "18.6"."""
        return ".".join(map(str, self.binaries.version))

    @property
    def data(self) -> Path:
        """Give the data folder, 0700."""
        return self._opened.data

    def log_tail(self, lines: int = 20) -> str:
        """Return the last *lines* of the server's log."""
        return log_tail(self._opened.log, lines)

    def processes(self) -> list[int]:
        """List the server's live processes, the main one first."""
        folders = self._opened
        return watchdog.members(folders.token, folders.account.uid)

    # --- what it does -----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """
        Start the server, or start it again after ``halt()`` or ``kill()``, and return when it answers queries.

        Raises:
            EmbeddedPostgresError: It did not start; whatever this call made is gone again.
        """
        if self.running:
            raise EmbeddedPostgresError("the server runs already")
        deadline = time.monotonic() + self._start_seconds_max
        opening = self._folders is None
        try:
            if opening:
                self._open(deadline)
            self._launch(deadline)
        except BaseException:
            if opening:
                self.stop("immediate")
            raise
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """
        End the server and remove what is temporary; stopping twice is harmless.

        Args:
            mode: "smart" waits for clients, "fast" disconnects them, "immediate" leaves recovery to the next start.
        """
        folders = self._folders
        if folders is None or self._owner != os.getpid():
            return
        try:
            self.halt(mode)
        finally:
            guard, self._watchdog, self._folders, self._password = self._watchdog, None, None, ""
            folders.release()
            clean = guard is None or dismiss_watchdog(guard, folders)
        if not clean:
            raise EmbeddedPostgresError(
                f"something of the server is left in {', '.join(map(str, folders.temporary))}"
            )

    def halt(self, mode: StopMode = "fast") -> None:
        """Take the server down and keep its data and address, temporary ones too: ``start()`` brings it back."""
        folders, process = self._in_charge, self._process
        if process is not None:
            end_process(process, folders, mode=mode, seconds_max=self._stop_seconds_max)
            self._process = None

    def kill(self) -> None:
        """Kill every process of the server with SIGKILL, as a crash would; ``start()`` brings it back."""
        folders, process = self._in_charge, self._process
        if process is not None:
            kill_process(process, folders)
            self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Take the server down and bring it back at the same address."""
        self.halt(mode)
        self.start()

    # --- how --------------------------------------------------------------------------------------------------------

    @property
    def _opened(self) -> Folders:
        if self._folders is None:
            raise EmbeddedPostgresError("the server has not been started")
        return self._folders

    @property
    def _in_charge(self) -> Folders:
        if self._owner != os.getpid() and self._folders is not None:
            raise EmbeddedPostgresError(
                f"the server belongs to process {self._owner}, which we were forked from"
            )
        return self._opened

    def _open(self, deadline: float) -> None:
        if not sys.platform.startswith("linux"):
            raise EmbeddedPostgresError(
                "the embedded PostgreSQL runs on Linux only; give the DSN of another server"
            )
        self._owner = os.getpid()
        folders = self._folders = open_folders(self._directory, durable=self._durable)
        self._watchdog = set_watchdog(folders)
        major = data_major(folders.data)
        found = find_binaries(self._choice, major=major)
        if not folders.account.may_run(found.folder / "postgres"):
            found = Binaries(stage(found, folders.run / "binaries"), found.version, found.origin)
        self._binaries = found
        folders.log.unlink(missing_ok=True)
        if major is None:
            sync = self._durable and folders.data.parent not in folders.temporary
            make_cluster(folders, found, sync=sync, seconds_max=deadline - time.monotonic())
        self._port, self._password = SOCKET_PORT, ""

    def _launch(self, deadline: float) -> None:
        for _ in range(PORT_TRIES_MAX):
            if self._tcp and not self._password:
                self._port = _free_port()
            try:
                self._run(deadline)
            except EmbeddedPostgresError as error:
                # Between our look and the server's bind somebody else may take the port; a known one is not given up.
                if not self._tcp or self._password or "could not bind" not in str(error):
                    raise
            else:
                break
        if self._tcp and not self._password:
            self._set_password()

    def _run(self, deadline: float) -> None:
        folders = self._in_charge
        command = server_command(
            folders,
            self.binaries,
            port=self._port,
            tcp=self._tcp,
            durable=self._durable,
            settings=self._settings,
        )
        process = start_process(folders, command)
        try:
            await_answer(process, folders, port=self._port, deadline=deadline)
        except BaseException:
            kill_process(process, folders)
            raise
        self._process = process

    def _set_password(self) -> None:
        password = make_password()
        statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{scram_verifier(password)}'"
        ask(
            self._opened.socket(self._port),
            statement,
            user=SUPERUSER,
            database=DATABASE,
            timeout_seconds=10.0,
        )
        self._password = password


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
