"""Start, watch and end one server process; the folders and the data are somebody else's concern."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from webhook_inbox.embedded import watchdog
from webhook_inbox.embedded.cluster import DATABASE, SUPERUSER
from webhook_inbox.embedded.folders import Folders
from webhook_inbox.embedded.probe import NoAnswerError, ask
from webhook_inbox.embedded.spawn import server_environment, spawn
from webhook_inbox.errors import EmbeddedPostgresError

StopMode: TypeAlias = Literal["smart", "fast", "immediate"]
#: PostgreSQL manual, "Shutting Down the Server".
SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
POLL_SECONDS = 0.01
LOG_TAIL_BYTES = 64 * 1024
LOG_LINES = 20
WATCHDOG_SECONDS_MAX = watchdog.IMMEDIATE_SECONDS + watchdog.KILL_SECONDS + 5.0


def start_process(folders: Folders, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the server as a child in a session, and so a process group, of its own; it need not answer yet."""
    settle_pid_files(folders)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    log = os.open(folders.log, flags, 0o600)
    try:
        return spawn(command, folders.account, cwd=folders.data, stderr=log, pass_fds=(folders.lock,))
    finally:
        os.close(log)


def await_answer(process: subprocess.Popen[bytes], folders: Folders, *, port: int, deadline: float) -> None:
    """
    Return when the server has answered a query.

    Args:
        deadline: On the monotonic clock, in seconds.

    Raises:
        EmbeddedPostgresError: It ended, or did not answer in time; the text holds the end of its log.
    """
    answer = "it was not asked yet"
    while time.monotonic() < deadline:
        try:
            if ask(folders.socket(port), "SELECT 1", user=SUPERUSER, database=DATABASE) == "1":
                return
        except NoAnswerError as error:
            answer = str(error)
        if process.poll() is not None:
            answer = f"it ended with status {process.returncode}"
            break
        time.sleep(POLL_SECONDS)
    raise EmbeddedPostgresError(
        f"PostgreSQL did not start: {answer}; the end of its log:\n{log_tail(folders.log)}"
    )


def end_process(
    process: subprocess.Popen[bytes], folders: Folders, *, mode: StopMode, seconds_max: float
) -> None:
    """Ask the server to stop and wait; after *seconds_max* it is killed. Nothing of it lives afterwards."""
    process.send_signal(SIGNALS[mode])
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds_max)
    kill_process(process, folders)


def kill_process(process: subprocess.Popen[bytes], folders: Folders) -> None:
    """Kill every process of the server with SIGKILL and wait until none is left."""
    process.kill()
    gone = watchdog.kill_members(folders.token, folders.account.uid)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(watchdog.KILL_SECONDS)
    if not gone or process.returncode is None:
        raise EmbeddedPostgresError(f"processes of the server in {folders.home} survive SIGKILL")


def set_watchdog(folders: Folders) -> subprocess.Popen[bytes]:
    """Start the child that cleans up when we end without doing so."""
    script = str(Path(watchdog.__file__).resolve())
    uid, lock = folders.account.uid, folders.lock
    arguments = [str(os.getpid()), str(uid), folders.token, str(lock), *map(str, folders.temporary)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=server_environment(),
        cwd="/",
        pass_fds=(lock,),
        start_new_session=True,
    )


def dismiss_watchdog(process: subprocess.Popen[bytes], folders: Folders) -> bool:
    """Let the watchdog clean up now, or do it where somebody killed it; say whether nothing is left."""
    try:
        process.communicate(watchdog.DONE, timeout=WATCHDOG_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode == 0:
        return True
    return watchdog.clean_up(folders.token, folders.account.uid, map(str, folders.temporary))


def settle_pid_files(folders: Folders) -> None:
    """
    Remove what a dead server left and would keep the next from starting.

    PostgreSQL itself ignores a pid file whose process is dead. It gives up where the number has gone to a living
    process, which may be anybody's: that we tell apart. The lock is ours by now, so it is no server of this module.

    Raises:
        EmbeddedPostgresError: A server that was started by other means is using the data.
    """
    for name in folders.run.glob(".s.PGSQL.*"):
        name.unlink()
    file = folders.data / "postmaster.pid"
    try:
        pid = int(file.read_bytes().split(b"\n", 1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return
    if Path(os.fsdecode(command[0])).name in {"postgres", "postmaster"} and _works_in(
        pid, command, folders.data
    ):
        raise EmbeddedPostgresError(
            f"a PostgreSQL server that we did not start uses {folders.data} (process {pid})"
        )
    file.unlink()


def _works_in(pid: int, command: Sequence[bytes], data: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:  # another account's process: its command line must do
        return os.fsencode(data) in command


def log_tail(log: Path, lines: int = LOG_LINES) -> str:
    """Return the last *lines* of the server's log, fewer where it is shorter."""
    try:
        with log.open("rb") as file:
            file.seek(-min(LOG_TAIL_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
