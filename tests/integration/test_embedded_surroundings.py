"""An embedded server asks nothing of its surroundings and opens nothing to them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from tests.fixtures.marks import ask, leave_a_mark, marks
from tests.fixtures.programs import as_root
from webhook_inbox.embedded import EmbeddedPostgres


def test_nothing_of_the_environment_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """PG* variables, locales and time zones of the user's other servers neither break the start nor leak in."""
    strange = {
        "PGHOST": "nowhere.invalid",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGDATABASE": "no_such",
        "PGUSER": "no_such",
        "PGSERVICE": "no_such",
        "PGDATA": "/nonexistent",
        "PGOPTIONS": "-c no_such=1",
        "PGREQUIREAUTH": "scram-sha-256",
        "PGTZ": "Nowhere/Weird",
        "PGCLIENTENCODING": "weird",
        "LANG": "weird",
        "LC_ALL": "xx_XX.WEIRD-8",
        "LANGUAGE": "weird",
        "TZ": "Nowhere/Weird",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in strange.items():
            patch.setenv(name, value)
        server = EmbeddedPostgres(durable=False).start()
        server.restart()
    try:
        inherited = Path(f"/proc/{server.processes()[0]}/environ").read_bytes().split(b"\0")
        names = {entry.split(b"=")[0].decode() for entry in inherited if entry}
        assert names <= {
            "PATH",
            "LD_LIBRARY_PATH",
            "LC_ALL",
            "PG_GRANDPARENT_PID",
            "PGLOCALEDIR",
            "PGSYSCONFDIR",
            "PWD",
        }
        assert ask(server.dsn, "SHOW timezone") == "UTC"
        assert ask(server.dsn, "SHOW lc_messages") == "C"
        for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER"):
            monkeypatch.setenv(name, strange[name])
        assert ask(server.dsn, "SELECT current_database() || current_user") == "postgrespostgres"
    finally:
        server.stop()


@pytest.mark.parametrize("name", ["with a space", 'quote\'s "and" commas, too', "zażółć", "x" * 200])
def test_any_path_will_do(open_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Spaces, quotes, commas, other alphabets and a path longer than a socket's address, for data and for TMPDIR."""
    home, temporary = open_folder / name / "kept", open_folder / name / "tmp"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with EmbeddedPostgres(home) as server:
        leave_a_mark(server)
        assert server.data.is_relative_to(home)
        server.restart()
        assert marks(server) == 1
    with EmbeddedPostgres() as server:
        assert server.data.is_relative_to(temporary)
    assert list(temporary.iterdir()) == []


def test_folders_are_closed_to_others(open_folder: Path) -> None:
    """Data, socket folder and socket are the server account's alone, and folders that were there keep their mode."""
    open_folder.chmod(0o751)
    with EmbeddedPostgres(open_folder / "new" / "kept") as server:
        account = Path(f"/proc/{server.processes()[0]}").stat().st_uid
        assert account != 0
        assert as_root() or account == os.geteuid()
        run = Path(ask(server.dsn, "SHOW unix_socket_directories").strip('"'))
        for path in (server.data, run, run / ".s.PGSQL.5432"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert path.stat().st_uid == account
        for path in (server.data.parent, server.data.parent.parent):
            assert stat.S_IMODE(path.stat().st_mode) & 0o066 == 0
        assert stat.S_IMODE((server.data.parent / "postgres.log").stat().st_mode) == 0o600
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o751
