"""One server at a time uses a folder, and what a dead one left behind keeps no other from starting."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.fixtures.marks import ask, leave_a_mark, marks
from tests.fixtures.programs import Programs, eventually
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.embedded.account import server_account
from webhook_inbox.errors import EmbeddedPostgresError

SECOND = """
import json, sys
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.errors import EmbeddedPostgresError
try:
    EmbeddedPostgres({directory!r}).start()
except EmbeddedPostgresError as error:
    print(json.dumps(str(error)), flush=True)
"""


def test_a_second_server_in_the_same_directory_is_refused_by_name(
    programs: Programs, open_folder: Path
) -> None:
    """From this process and from another: an error at once that names the directory; the first goes on."""
    with EmbeddedPostgres(open_folder / "kept") as first:
        leave_a_mark(first)
        with pytest.raises(EmbeddedPostgresError, match=f"uses {open_folder}/kept .process {os.getpid()}"):
            EmbeddedPostgres(open_folder / "kept").start()
        text = programs.start(SECOND.format(directory=str(open_folder / "kept"))).report()
        assert f"uses {open_folder}/kept (process {os.getpid()})" in text
        assert marks(first) == 1
    with EmbeddedPostgres(open_folder / "kept") as second:
        assert marks(second) == 1


def test_a_pid_file_that_names_a_living_stranger_is_stale(open_folder: Path) -> None:
    """After a crash the pid may be anybody's by now, even a process of the server's own account."""
    with EmbeddedPostgres(open_folder / "kept") as server:
        leave_a_mark(server)
        data = server.data
    account = server_account(data.stat().st_uid)
    stranger = subprocess.Popen(["sleep", "60"], **account.identity)
    try:
        (data / "postmaster.pid").write_text(f"{stranger.pid}\n{data}\n1\n5432\n\n\n\n")
        (data / "postmaster.pid").chmod(0o600)
        account.own(data / "postmaster.pid")
        with EmbeddedPostgres(open_folder / "kept") as server:
            assert marks(server) == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_pid_file_left_by_a_killed_server_is_no_obstacle(programs: Programs, open_folder: Path) -> None:
    """Owner, watchdog and server die by SIGKILL at once, and nobody cleans up: the next start recovers."""
    text = """
import json, os, sys, psycopg
from webhook_inbox.embedded import EmbeddedPostgres
with EmbeddedPostgres({directory!r}) as server:
    psycopg.connect(server.dsn, autocommit=True).execute("CREATE TABLE mark AS SELECT 1 AS n")
    print(json.dumps([server._folders.run.name, server._watchdog.pid, *server.processes()]), flush=True)
    sys.stdin.read()
"""
    program = programs.start(text.format(directory=str(open_folder / "kept")))
    run, watchdog, *server = program.report()
    for pid in (watchdog, program.process.pid, *server):
        with contextlib.suppress(ProcessLookupError):  # some follow their postmaster by themselves
            os.kill(pid, 9)
    program.finish()
    shutil.rmtree(Path(tempfile.gettempdir()) / run)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in server), what="the server is dead")
    assert (open_folder / "kept" / "pgdata" / "postmaster.pid").exists()
    with EmbeddedPostgres(open_folder / "kept") as again:
        assert marks(again) == 1


def test_a_server_that_somebody_else_started_on_the_data_is_named(open_folder: Path) -> None:
    """Its pid file is believed, and it is left alone."""
    with EmbeddedPostgres(open_folder / "kept") as server:
        data, postgres = server.data, server.binaries.folder / "postgres"
    account, log = server_account(data.stat().st_uid), open_folder / "log"
    command = [
        str(postgres),
        "-D",
        str(data),
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={data}",
    ]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stderr=output, cwd="/", **account.identity) as foreign,
    ):
        eventually(
            lambda: "ready to accept connections" in log.read_text(),
            what="the other server is up",
            seconds=15,
        )
        with pytest.raises(EmbeddedPostgresError, match=f"we did not start uses .*process {foreign.pid}"):
            EmbeddedPostgres(open_folder / "kept").start()
        assert foreign.poll() is None
        foreign.terminate()


def test_a_folder_that_is_in_the_way_is_left_as_it_is(open_folder: Path) -> None:
    """Another server's data folder, and something that is called like ours and holds no data, are refused untouched."""
    theirs = open_folder / "theirs"
    theirs.mkdir()
    (theirs / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedPostgresError, match="data folder of another server"):
        EmbeddedPostgres(theirs).start()
    assert [path.name for path in theirs.iterdir()] == ["PG_VERSION"]
    (open_folder / "ours" / "pgdata").mkdir(parents=True)
    (open_folder / "ours" / "pgdata" / "letter.txt").write_text("dear diary")
    with pytest.raises(EmbeddedPostgresError):
        EmbeddedPostgres(open_folder / "ours").start()
    assert (open_folder / "ours" / "pgdata" / "letter.txt").read_text() == "dear diary"
    with pytest.raises(EmbeddedPostgresError, match="cannot make"):
        EmbeddedPostgres(theirs / "PG_VERSION" / "below").start()


def test_data_is_served_by_the_version_that_wrote_it(open_folder: Path) -> None:
    """Where no such version is left to run, the error names it, and the data is as it was."""
    with EmbeddedPostgres(open_folder / "kept") as server:
        data, written = server.data, server.binaries.major
    assert (data / "PG_VERSION").read_text() == f"{written}\n"
    (data / "PG_VERSION").write_text("13\n")
    with pytest.raises(EmbeddedPostgresError, match="written by PostgreSQL 13"):
        EmbeddedPostgres(open_folder / "kept").start()
    (data / "PG_VERSION").write_text(f"{written}\n")
    with EmbeddedPostgres(open_folder / "kept") as server:
        assert ask(server.dsn, "SELECT 1") == 1


def test_a_killed_server_that_never_comes_back_gives_its_shared_memory_back() -> None:
    """Each leaves a System V segment of which a system has 4096; the next start would reclaim it, and there is none."""

    def segments() -> set[str]:
        return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}

    for durable in (True, False):
        with EmbeddedPostgres(durable=durable) as server:
            segment = (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
            assert segment in segments()
            assert ask(server.dsn, "SHOW dynamic_shared_memory_type") == "mmap"
            server.kill()
            assert segment in segments()
        assert segment not in segments()
