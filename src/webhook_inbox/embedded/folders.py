"""
Make, lock and give up the folders of one embedded server.

    home    data/        the database cluster, 0700, the server account's own
            server.log   0600, ours: the account need not open it
            lock         held as long as we, the watchdog or any process of the server lives
    run     .s.PGSQL.*   the socket; 0700, the server account's own, short
            hba.conf     who may connect
            binaries/    only where the account cannot enter the programs' own place

The *home* is the user's directory, or temporary. The *run* folder is always temporary: a socket's path has room for
107 bytes (unix(7), ``sun_path``), which a user's directory may well exceed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from webhook_inbox.embedded.account import Account, server_account
from webhook_inbox.errors import EmbeddedPostgresError

SOCKET_PATH_BYTES_MAX = 107
SOCKET_NAME_BYTES_MAX = len("/.s.PGSQL.65535")
#: How long the watchdog of an owner that just died may take to clean up before we call the folder busy.
RELEASE_SECONDS_MAX = 15.0
POLL_SECONDS = 0.02
PREFIX = "webhook-inbox-"
TEMPORARY_NAME_BYTES = len(PREFIX) + 8
#: A file system in memory, and how much of it must be free: containers often have 64 MiB there.
MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp is used in it
MEMORY_BYTES_MIN = 1 << 30


@dataclass(frozen=True, slots=True)
class Folders:
    """
    Hold the folders of one server, from its first start to its end.

    Attributes:
        temporary: What must be removed at the end.
        lock: Open file descriptor; the server's processes inherit it, so the lock outlives us as long as they do.
    """

    home: Path
    run: Path
    account: Account
    temporary: tuple[Path, ...]
    lock: int = field(repr=False)

    @property
    def data(self) -> Path:
        """Give the database cluster's folder."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """Give the file that the server writes its messages to."""
        return self.home / "server.log"

    @property
    def token(self) -> str:
        """Give the random name that marks this server's processes."""
        return self.run.name

    def socket(self, port: int) -> Path:
        """Give the path of the socket, whose name holds the port even where nothing listens on it."""
        return self.run / f".s.PGSQL.{port}"

    def release(self) -> None:
        """Give up the lock; folders are the watchdog's to remove."""
        os.close(self.lock)


def open_folders(directory: Path | None, *, durable: bool) -> Folders:
    """
    Make and lock what a server needs.

    Args:
        directory: Kept and reused, made where it does not exist; None: a temporary one.
        durable: False lets a temporary one lie in memory.

    Raises:
        EmbeddedPostgresError: The server's account cannot enter *directory*, or another server uses it.
    """
    made: list[Path] = []
    try:
        home = None if directory is None else Path(directory).expanduser().resolve()
        account = server_account(_owner(home))
        if home is None:
            made.append(home := _temporary(account, _home_parents(durable=durable)))
            home.chmod(_home_mode(account))
        else:
            _make_home(home, account)
        lock = _lock(home)
        made.append(run := _temporary(account, _run_parents(account)))
        account.own(run)
    except BaseException as error:
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise EmbeddedPostgresError(f"cannot make the server's folders: {error}") from error
        raise
    return Folders(home, run, account, tuple(made), lock)


def _owner(home: Path | None) -> int | None:
    data = home and home / "data"
    return data.stat().st_uid if data is not None and data.exists() else None


def _make_home(home: Path, account: Account) -> None:
    if (closed := account.shut_out(home)) is not None:
        mode = stat.S_IMODE(closed.stat().st_mode)
        raise EmbeddedPostgresError(
            f"PostgreSQL does not run as root, so it runs as {account.name!r}, and that account cannot enter {closed} "
            f"(mode {mode:04o}), which is left as it is; give a directory that it can enter, "
            "for instance below /var/lib, or start as an ordinary user"
        )
    missing = [folder for folder in (home, *home.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(_home_mode(account))


def _home_mode(account: Account) -> int:
    """Let the server's account pass through, and nobody else but the owner look inside."""
    return 0o711 if account.dropped else 0o700


def _temporary(account: Account, parents: Sequence[Path]) -> Path:
    for parent in parents:
        if parent.is_dir() and account.shut_out(parent) is None:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    tried = ", ".join(map(str, parents))
    raise EmbeddedPostgresError(
        f"no folder for temporary files suits the account {account.name!r}; tried {tried}: set TMPDIR"
    )


def _home_parents(*, durable: bool) -> list[Path]:
    # Making files is what a new cluster and CREATE DATABASE do most: measured 25 times as fast in memory.
    in_memory = not durable and MEMORY.is_dir() and _bytes_free(MEMORY) >= MEMORY_BYTES_MIN
    return [*([MEMORY] if in_memory else []), *_disk_parents()]


def _run_parents(account: Account) -> list[Path]:
    """List where a socket's path is short enough and, for root, copied programs may run."""
    room = SOCKET_PATH_BYTES_MAX - SOCKET_NAME_BYTES_MAX - TEMPORARY_NAME_BYTES - 1
    return [
        path
        for path in (*_disk_parents(), MEMORY)
        if len(os.fsencode(path)) <= room
        and "," not in str(path)  # to libpq that is a list of hosts
        and not (account.dropped and path.is_dir() and os.statvfs(path).f_flag & os.ST_NOEXEC)
    ]


def _disk_parents() -> list[Path]:
    return [Path(tempfile.gettempdir()).absolute(), Path("/tmp"), Path("/var/tmp")]  # noqa: S108 - mkdtemp is used in them


def _bytes_free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _lock(home: Path) -> int:
    descriptor = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + RELEASE_SECONDS_MAX
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            if _alive(owner) or time.monotonic() > deadline:
                os.close(descriptor)
                raise EmbeddedPostgresError(
                    f"another embedded PostgreSQL uses {home} (process {owner or '?'}); "
                    "stop it or give another directory"
                ) from None
            time.sleep(POLL_SECONDS)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _alive(pid: str) -> bool:
    return pid.isdigit() and Path(f"/proc/{pid}").exists()
