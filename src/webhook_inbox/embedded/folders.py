"""
Make the folders of one embedded server.

    home    pgdata/        the database cluster, 0700, the server account's own
            postgres.log   0600, ours: the account need not open it
            postgres.lock  held as long as we, the watchdog or any process of the server lives
    run     .s.PGSQL.*     the socket; 0700, the server account's own, short
            hba.conf       who may connect
            binaries/      only where the account cannot enter the programs' own place

The *home* is the user's directory, or temporary. The *run* folder is always temporary: a socket's path has room for
107 bytes (unix(7), ``sun_path``), which a user's directory may well exceed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from webhook_inbox.embedded.account import Account, server_account
from webhook_inbox.embedded.lock import release_lock, take_lock
from webhook_inbox.errors import EmbeddedPostgresError

SOCKET_PATH_BYTES_MAX = 107
SOCKET_NAME_BYTES_MAX = len("/.s.PGSQL.65535")
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
        temporary: What must be removed at the end; that is the watchdog's work.
        lock: Open file descriptor that holds the home's lock.
    """

    home: Path
    run: Path
    account: Account
    temporary: tuple[Path, ...]
    lock: int = field(repr=False)

    @property
    def data(self) -> Path:
        """Give the database cluster's folder."""
        return self.home / "pgdata"

    @property
    def log(self) -> Path:
        """Give the file that the server writes its messages to."""
        return self.home / "postgres.log"

    @property
    def token(self) -> str:
        """Give the random name that marks this server's processes and whatever it makes under way."""
        return self.run.name

    @property
    def kept(self) -> bool:
        """Say whether the data outlives the server."""
        return self.home not in self.temporary

    def socket(self, port: int) -> Path:
        """Give the path of the socket, whose name holds the port even where nothing listens on it."""
        return self.run / f".s.PGSQL.{port}"


def open_folders(directory: Path | None, *, durable: bool) -> Folders:
    """
    Make and lock what a server needs.

    Args:
        directory: Kept and reused, made where it does not exist; None: a temporary one.
        durable: False lets a temporary one lie in memory.

    Raises:
        EmbeddedPostgresError: The server's account cannot enter *directory*, or another server uses it.
    """
    try:
        if directory is not None:
            home = directory.expanduser().resolve()
            account = server_account(_owner(home / "pgdata"))
            _make_home(home, account)
            return _with_run(home, account, ())
        account = server_account(None)
        home = _temporary(account, _home_parents(durable=durable))
        with _removed_on_error(home):
            home.chmod(_home_mode(account))
            return _with_run(home, account, (home,))
    except OSError as error:
        raise EmbeddedPostgresError(f"cannot make the server's folders: {error}") from error


def _with_run(home: Path, account: Account, temporary: tuple[Path, ...]) -> Folders:
    lock = take_lock(home / "postgres.lock")
    try:
        run = _temporary(account, _run_parents(account))
        with _removed_on_error(run):
            account.own(run)
            return Folders(home, run, account, (*temporary, run), lock)
    except BaseException:
        release_lock(lock)
        raise


@contextlib.contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _owner(data: Path) -> int | None:
    try:
        return data.stat().st_uid
    except FileNotFoundError:
        return None


def _make_home(home: Path, account: Account) -> None:
    if (closed := account.shut_out(home)) is not None:
        mode = stat.S_IMODE(closed.stat().st_mode)
        raise EmbeddedPostgresError(
            f"PostgreSQL does not run as root, so it runs as {account.name!r}, and that account cannot enter {closed} "
            f"(mode {mode:04o}), which is left as it is; give a directory that it can enter, "
            "for instance below /var/lib, or start as an ordinary user"
        )
    if (home / "PG_VERSION").exists():
        raise EmbeddedPostgresError(
            f"{home} is the data folder of another server; give a directory of its own"
        )
    missing = [folder for folder in (home, *home.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
        folder.chmod(_home_mode(account))


def _home_mode(account: Account) -> int:
    """Let the server's account pass through, and nobody but the owner look inside."""
    return 0o711 if account.dropped else 0o700


def _temporary(account: Account, parents: Sequence[Path]) -> Path:
    for parent in parents:
        if parent.is_dir() and account.shut_out(parent) is None:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    tried = ", ".join(map(str, parents))
    raise EmbeddedPostgresError(
        f"no folder for temporary files suits the account {account.name!r}; tried {tried}: set TMPDIR to one that does"
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
    common = ("/tmp", "/var/tmp")  # noqa: S108 - mkdtemp is used in them
    return [Path(tempfile.gettempdir()).resolve(), *map(Path, common)]


def _bytes_free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
