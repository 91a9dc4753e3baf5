"""
Leave nothing behind when the process that started a server ends, however it ends.

    python -I -S watchdog.py PARENT UID TOKEN LOCK [FOLDER ...]

One such child stands beside every embedded server, in a session of its own, so that neither the terminal's
Ctrl-C nor a SIGKILL of its parent reaches it. It waits for the first of two signs, then ends every process
of the server and removes the folders named:

- its standard input ends: the parent says it is done, or is dead;
- the parent's pidfd becomes readable: the parent is dead, although a forked child of it still holds the pipe.

``PR_SET_PDEATHSIG`` would not do: it is bound to the *thread* that started the child, and the kernel clears it
when the server drops root. Reading ``/proc/PID/cwd`` or ``exe`` would not do either: root in a container has no
right to them for another account's process. A server's processes are therefore known by their command line,
which anyone may read: every one of them carries the server's ``cluster_name``, and that is the random TOKEN.

Standard library only, and no import from this package: the script runs isolated (-I) and without site (-S).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

#: PostgreSQL kills its own children 5 s after an immediate shutdown was asked for; after this we do it.
IMMEDIATE_SECONDS = 6.0
#: A process in an uninterruptible wait for a disk dies late; nothing of ours waits longer than this for it.
KILL_SECONDS = 30.0
#: A parent that dies between fork and exec leaves a child that is a server only a moment later.
SETTLE_SECONDS = 0.25
#: What an orderly parent writes before it closes the pipe: it has ended its server itself.
DONE = b"done"
POLL_SECONDS = 0.005


def members(token: str, uid: int) -> list[int]:
    """
    List the live processes of one server: postmaster, backends, and whatever they started.

    Args:
        token: The server's ``cluster_name``; eight random characters make it unmistakable.
        uid: The account the server runs as; a process of another account is never named.

    Returns:
        Process ids, the postmaster's (or initdb's) first. Zombies are not live: their command line is empty.
    """
    needle = token.encode()
    leaders, named, sessions = [], [], {}
    for pid in _pids_of(uid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            sessions[pid] = _session(pid)
            if needle in command:
                program = os.path.basename(command.split(b"\0", 1)[0])  # noqa: PTH119 - bytes, not a path of ours
                if program in (b"postgres", b"initdb"):
                    leaders.append(pid)
                elif command.startswith(b"postgres: "):
                    named.append(pid)
    ours = {sessions[pid] for pid in (*leaders, *named)}
    started = [pid for pid, session in sessions.items() if session in ours]
    return [*leaders, *named, *(pid for pid in started if pid not in {*leaders, *named})]


def kill_members(token: str, uid: int, *, seconds: float = KILL_SECONDS) -> bool:
    """
    Send SIGKILL to every process of the server until none is left.

    Backends lead sessions of their own and may be born while we look, so one signal to one process group
    would miss them: the round is repeated.

    Returns:
        False where some process survived *seconds* of it.
    """
    deadline = time.monotonic() + seconds
    while found := members(token, uid):
        _send(signal.SIGKILL, found)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def clean_up(token: str, uid: int, folders: Iterable[str], *, settle_seconds: float = 0.0) -> bool:
    """
    End the server at once and remove *folders*; say whether nothing is left.

    An immediate shutdown comes first, because it lets PostgreSQL give its shared memory back. The data it
    leaves is what a crash leaves: complete, after recovery at the next start.

    Args:
        settle_seconds: How long to look for a server before believing that there is none.
    """
    settled = time.monotonic() + settle_seconds
    while not (found := members(token, uid)) and time.monotonic() < settled:
        time.sleep(POLL_SECONDS)
    deadline = time.monotonic() + IMMEDIATE_SECONDS
    _send(signal.SIGQUIT, found)
    while found and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        found = members(token, uid)
    gone = kill_members(token, uid)
    for folder in folders:
        if gone:
            _give_memory_back(Path(folder) / "pgdata" / "postmaster.pid", uid)
        shutil.rmtree(folder, ignore_errors=True)
    return gone and not any(os.path.lexists(folder) for folder in folders)


def _give_memory_back(pid_file: Path, uid: int) -> None:
    """
    Remove the System V segment of a server that was killed and will never start again to do it itself.

    It is removed as the account that owns it: root in a container may lack the right to remove another's.

    Source: PostgreSQL's ``pidfile.h``: line 7 of the pid file holds key and id; proc_sysvipc(5) lists the segments.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        key, segment = map(int, pid_file.read_text().splitlines()[6].split())
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            found = [int(number) for number in line.split()]
            attached, owner = found[6], found[7]
            if found[:2] == [key, segment] and owner == uid and attached == 0:
                command = ["ipcrm", "--shmem-id", str(segment)]
                subprocess.run(
                    command, user=uid if os.geteuid() == 0 else None, capture_output=True, check=False
                )


def _pids_of(uid: int) -> list[int]:
    pids = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    pids.append(int(entry.name))
    return pids


def _session(pid: int) -> int:
    # The name in brackets may hold spaces and brackets: count the fields from the last one.
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[3])


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_for_end(parent: int) -> bytes:
    """Return what the parent said last: DONE, or nothing where it died."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    # Where a container forbids pidfd_open, the pipe alone remains.
    with contextlib.suppress(OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    # Only now is the question safe: a parent that is still ours is the one whose pidfd was opened.
    if os.getppid() == parent:
        poll.poll()
    os.set_blocking(sys.stdin.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        return os.read(sys.stdin.fileno(), len(DONE))
    return b""


def main(arguments: Sequence[str]) -> int:
    """Wait for the parent's end, then clean up; the exit status is 0 where nothing was left behind."""
    parent, uid, token, lock, *folders = arguments
    # A service manager signals the whole group at once; we go last.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    settle_seconds = 0.0 if _wait_for_end(int(parent)) == DONE else SETTLE_SECONDS
    clean = clean_up(token, int(uid), folders, settle_seconds=settle_seconds)
    # Also for a forked child of the parent, which holds a copy of the descriptor and knows nothing of it.
    fcntl.flock(int(lock), fcntl.LOCK_UN)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
