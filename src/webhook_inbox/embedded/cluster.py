"""Make a database cluster and say with which settings it is served; no process outlives a call here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from webhook_inbox.embedded import watchdog
from webhook_inbox.embedded.binaries import Binaries
from webhook_inbox.embedded.folders import PREFIX, Folders
from webhook_inbox.embedded.spawn import spawn
from webhook_inbox.errors import EmbeddedPostgresError

SUPERUSER = "postgres"
DATABASE = "postgres"
MESSAGE_LINES = 15
#: The first major version whose initdb knows the option; before it libc was the only provider.
LOCALE_PROVIDER_SINCE = 15

#: A full-page image guards against a torn page, which only a lost operating system leaves.
UNDURABLE = {"fsync": "off", "full_page_writes": "off"}
#: Shared memory as files goes away with the data folder, also when the server is killed and never starts again.
TEMPORARY = {"dynamic_shared_memory_type": "mmap"}

# `trust` asks for no password, and stands for the socket alone, behind two walls: the folder it lies in is 0700 and
# the socket itself too (on Linux connect(2) needs write permission on it). Who passes both is the server's own
# account or root, and they could read the data files anyway. `peer` would only forbid the roles that tests create.
LOCAL_RULES = "local all all trust\nlocal replication all trust\n"
TCP_RULES = "host all all 127.0.0.1/32 scram-sha-256\n"


def data_major(data: Path) -> int | None:
    """Return the major version that wrote *data*, None where there is none yet."""
    try:
        return int((data / "PG_VERSION").read_text().strip())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EmbeddedPostgresError(f"{data} holds something that is no PostgreSQL data: {error}") from error


def make_cluster(folders: Folders, binaries: Binaries, *, sync: bool, seconds_max: float) -> None:
    """
    Make the data folder, complete or not at all.

    It is made under a name of its own and renamed when it is whole, so that a crash in between leaves nothing that
    looks like data. UTF-8 throughout; the locale is the C library's ``C.UTF-8``, or ``C`` where it has none: both are
    everywhere, sort alike, and need no ICU, which the wheel's server lacks.

    Args:
        sync: Flush every file to the disk before it counts.

    Raises:
        EmbeddedPostgresError: initdb failed; the text holds what it said.
    """
    if folders.data.is_dir() and any(folders.data.iterdir()):
        raise EmbeddedPostgresError(
            f"{folders.data} holds something that is no PostgreSQL data; move it away"
        )
    for left in folders.home.glob(f"{PREFIX}*.unfinished"):
        shutil.rmtree(left)
    unfinished = folders.home / f"{folders.token}.unfinished"
    unfinished.mkdir(mode=0o700)
    unfinished.chmod(0o700)
    folders.account.own(unfinished)
    failure = ""
    for locale in ("C.UTF-8", "C"):
        failure = _initdb(folders, binaries, unfinished, locale=locale, sync=sync, seconds_max=seconds_max)
        if not failure:
            unfinished.rename(folders.data)
            if sync:
                _flush(folders.home)
            return
        if "locale" not in failure:
            break
    shutil.rmtree(unfinished, ignore_errors=True)
    raise EmbeddedPostgresError(f"initdb of {binaries.folder} failed: {failure}")


def _initdb(
    folders: Folders, binaries: Binaries, target: Path, *, locale: str, sync: bool, seconds_max: float
) -> str:
    command = [
        str(binaries.folder / "initdb"),
        f"--pgdata={target}",
        f"--username={SUPERUSER}",
        "--encoding=UTF8",
        f"--locale={locale}",
        "--lc-messages=C",
        "--auth-local=trust",
        "--auth-host=reject",
        "--no-instructions",
        *(["--locale-provider=libc"] if binaries.major >= LOCALE_PROVIDER_SINCE else []),
        *([] if sync else ["--no-sync"]),
    ]
    with spawn(command, folders.account, cwd=target, stderr=subprocess.PIPE) as child:
        try:
            _, said = child.communicate(timeout=max(seconds_max, 0.0))
        except subprocess.TimeoutExpired:
            _end(child, folders)
            return f"it took longer than {seconds_max:g} s"
        except BaseException:
            _end(child, folders)
            raise
    lines = said.decode(errors="replace").strip().splitlines()[-MESSAGE_LINES:]
    return "" if child.returncode == 0 else "\n".join(lines) or f"exit status {child.returncode}"


def _end(child: subprocess.Popen[bytes], folders: Folders) -> None:
    child.kill()  # where initdb is a script, it is not known by its name
    watchdog.kill_members(folders.token, folders.account.uid)


def server_command(
    folders: Folders, binaries: Binaries, *, port: int, tcp: bool, durable: bool, settings: Mapping[str, str]
) -> list[str]:
    """Give the server's command line; *settings* win, except over what keeps strangers out and what we rely on."""
    hba = _write_rules(folders.run / "hba.conf", LOCAL_RULES + (TCP_RULES if tcp else ""))
    options = {
        "timezone": "UTC",
        "log_timezone": "UTC",
        "lc_messages": "C",
        "log_line_prefix": "%m [%p] ",
        **({} if durable else UNDURABLE),
        **({} if folders.kept else TEMPORARY),
        **settings,
        "cluster_name": folders.token,
        "update_process_title": "on",
        "logging_collector": "off",
        "log_destination": "stderr",
        "ssl": "off",
        "password_encryption": "scram-sha-256",
        "hba_file": str(hba),
        "listen_addresses": "127.0.0.1" if tcp else "",
        "port": str(port),
        "unix_socket_directories": '"' + str(folders.run).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
    }
    pairs = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries.folder / "postgres"), "-D", str(folders.data), *pairs]


def _write_rules(file: Path, rules: str) -> Path:
    # The folder is the server account's: where we are root, a link it put there must not lead us to another file.
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(rules)
        os.fchmod(opened.fileno(), 0o644)
    return file


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
