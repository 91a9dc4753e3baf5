"""
Decide as whom the server runs: as ourselves, or, for root, as an account that already exists.

PostgreSQL refuses to run as root. We create no account and loosen no folder's mode: what the account cannot enter
is copied out (binaries) or refused by name (a data folder).
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from webhook_inbox.errors import EmbeddedPostgresError

#: Unprivileged accounts that systems bring along, the best first. None of them owns files by convention
#: except "postgres", whose business this is.
CANDIDATES = ("postgres", "nobody", "daemon")


class Identity(TypedDict, total=False):
    """Hold the arguments of ``subprocess.Popen`` that make the child another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Name who runs the server; *dropped* where that is not the account we run as."""

    name: str
    uid: int
    gid: int
    dropped: bool

    @property
    def identity(self) -> Identity:
        """Give ``Popen`` what it needs to drop groups, group and user, in this order, before it executes."""
        return Identity(user=self.uid, group=self.gid, extra_groups=[]) if self.dropped else Identity()

    def own(self, path: Path) -> None:
        """Hand *path*, which we made, to the account."""
        if self.dropped:
            os.chown(path, self.uid, self.gid)

    def shut_out(self, path: Path) -> Path | None:
        """
        Return the first part of *path*, from the root down, that the account cannot enter, or None.

        Args:
            path: Absolute; folders that do not exist yet are ours to make and count as open.
        """
        if not self.dropped:
            return None
        for part in (*reversed(path.parents), path):
            try:
                status = part.stat()
            except FileNotFoundError:
                return None
            if not self._may(status, stat.S_IXOTH):
                return part
        return None

    def may_run(self, program: Path) -> bool:
        """Say whether the account can read and execute *program* where it lies."""
        return self.shut_out(program) is None and (
            not self.dropped or self._may(program.stat(), stat.S_IROTH | stat.S_IXOTH)
        )

    def _may(self, status: os.stat_result, bits: int) -> bool:
        if status.st_uid == self.uid:
            bits <<= 6
        elif status.st_gid == self.gid:
            bits <<= 3
        return status.st_mode & bits == bits


def server_account(owner: int | None) -> Account:
    """
    Choose who runs the server.

    Args:
        owner: The user id that owns an existing data folder; PostgreSQL serves it to no other account.

    Raises:
        EmbeddedPostgresError: The data belongs to somebody we cannot become, or root found no account to drop to.
    """
    uid = os.geteuid()
    if uid != 0:
        if owner not in (None, uid):
            raise EmbeddedPostgresError(
                f"the data folder belongs to user id {owner} and we run as {uid}; "
                "run as its owner or give another directory"
            )
        return Account(name=str(uid), uid=uid, gid=os.getegid(), dropped=False)
    for entry in _entries(owner):
        if entry.pw_uid != 0:
            return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, dropped=True)
    whose = f"user id {owner}, which owns the data folder" if owner is not None else " or ".join(CANDIDATES)
    raise EmbeddedPostgresError(
        f"PostgreSQL refuses to run as root, and there is no account {whose} to run it as; start as an ordinary user"
    )


def _entries(owner: int | None) -> list[pwd.struct_passwd]:
    found = []
    for key in CANDIDATES if owner is None else (owner,):
        try:
            found.append(pwd.getpwnam(key) if isinstance(key, str) else pwd.getpwuid(key))
        except KeyError:
            continue
    return found
