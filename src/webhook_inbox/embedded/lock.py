"""
Let one server at a time use a folder, for exactly as long as anything of that server lives.

The lock is ``flock(2)`` on an open file that the server, its backends and the watchdog inherit. So it needs no pid to
be believed, cannot go stale, works between containers that share a volume, and outlives an owner that was killed.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from webhook_inbox.errors import EmbeddedPostgresError

#: How long the watchdog of an owner that just died may take to clean up before we call the folder busy.
RELEASE_SECONDS_MAX = 15.0
POLL_SECONDS = 0.02
PID_BYTES_MAX = 32


def take_lock(file: Path) -> int:
    """
    Lock *file* and return the open descriptor that holds the lock.

    An owner that is alive is an error at once; one that is dead has a watchdog at work, for which we wait.

    Raises:
        EmbeddedPostgresError: Another server, which is named, holds it.
    """
    # As root we may be in somebody else's folder: a link there must not lead us to another file.
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        owner = _wait(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    if owner is not None:
        os.close(descriptor)
        raise EmbeddedPostgresError(
            f"another embedded PostgreSQL uses {file.parent} (process {owner or 'unknown'}); "
            "stop it or give another directory"
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def release_lock(descriptor: int) -> None:
    """Give the lock up for every process that inherited it: a forked worker of ours may still hold its copy."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _wait(descriptor: int) -> str | None:
    """Return None when the lock is ours, else who has it."""
    deadline = time.monotonic() + RELEASE_SECONDS_MAX
    while not _taken(descriptor):
        owner = os.pread(descriptor, PID_BYTES_MAX, 0).decode(errors="replace").strip()
        if _alive(owner) or time.monotonic() > deadline:
            return owner
        time.sleep(POLL_SECONDS)
    return None


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alive(pid: str) -> bool:
    return pid.isdigit() and Path(f"/proc/{pid}").exists()
