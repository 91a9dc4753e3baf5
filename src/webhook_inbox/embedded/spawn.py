"""Start a server's programs: as the account chosen, in a session of their own, with an environment of our making."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from webhook_inbox.embedded.account import Account
from webhook_inbox.errors import EmbeddedPostgresError


def server_environment() -> dict[str, str]:
    """
    Give the environment for a server's programs: only what they need to be found and linked.

    PGDATA, PGPORT, PGOPTIONS, LANG, LC_*, TZ and the rest of the user's settings are meant for something else.
    """
    kept = ("PATH", "LD_LIBRARY_PATH")
    return {"LC_ALL": "C"} | {name: os.environ[name] for name in kept if name in os.environ}


def spawn(
    command: Sequence[str], account: Account, *, cwd: Path, stderr: int, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """
    Run *command* as *account*.

    Args:
        stderr: A descriptor or ``subprocess.PIPE``; standard output goes nowhere, and input is empty.

    Raises:
        EmbeddedPostgresError: It cannot be executed, or we may not become *account*.
    """
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=server_environment(),
            cwd=cwd,
            umask=0o077,
            pass_fds=pass_fds,
            start_new_session=True,
            **account.identity,
        )
    except OSError as error:
        raise EmbeddedPostgresError(f"cannot run {command[0]} as {account.name}: {error}") from error
