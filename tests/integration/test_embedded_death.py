"""However the program that started a server ends, nothing of the server is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.marks import marks
from tests.fixtures.origins import ORIGINS
from tests.fixtures.programs import Programs, eventually
from webhook_inbox.embedded import EmbeddedPostgres, watchdog

#: Starts a server, keeps one of its backends busy where it never notices a dead postmaster, reports, and waits.
OWNER = """
import json, os, sys, threading, psycopg
from webhook_inbox.embedded import EmbeddedPostgres
server = EmbeddedPostgres({directory!r}, binaries={origin!r}, durable=False)
with server:
    busy = psycopg.connect(server.dsn, autocommit=True)
    busy.execute("CREATE TABLE mark AS SELECT 1 AS n")
    query = "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 1000) b"
    threading.Thread(target=lambda: busy.execute(query), daemon=True).start()
    run = busy.info.host
    print(json.dumps({{
        "dsn": server.dsn, "folders": [run] + ([] if {directory!r} else [str(server.data.parent)]),
        "token": os.path.basename(run), "uid": os.stat(server.data).st_uid, "processes": server.processes(),
        "watchdog": server._watchdog.pid,
    }}), flush=True)
    {then}
"""
WAIT = "sys.stdin.read()"


def owner(*, directory: Path | None = None, origin: str | None = None, then: str = WAIT) -> str:
    """The text of a program that owns a server."""
    return OWNER.format(directory=None if directory is None else str(directory), origin=origin, then=then)


def assert_nothing_left(report: Any) -> None:
    """No process and no temporary folder of the server remains."""
    eventually(
        lambda: watchdog.members(report["token"], report["uid"]) == [], what="no process is left", seconds=15
    )
    eventually(lambda: not any(map(os.path.exists, report["folders"])), what="no folder is left", seconds=15)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(report["dsn"])


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("user", [None, "nobody"])
def test_a_killed_owner_leaves_no_server(programs: Programs, origin: str, user: str | None) -> None:
    """SIGKILL of the owner ends postmaster and busy backends and removes the folders; as ourselves and as a user."""
    program = programs.start(owner(origin=origin), user=user)
    report = program.report()
    assert len(report["processes"]) >= 6
    program.kill()
    assert_nothing_left(report)


def test_a_killed_owner_with_forked_children_leaves_no_server(programs: Programs) -> None:
    """A forked worker still holds the pipe to the watchdog, which is why the watchdog looks at the owner itself."""
    text = owner(
        then="child = os.fork(); child or sys.stdin.read(); print(child, flush=True); sys.stdin.read()"
    )
    program = programs.start(text)
    report = program.report()
    worker = program.report()
    program.kill()
    assert_nothing_left(report)
    os.kill(worker, 0)
    os.kill(worker, signal.SIGKILL)


def test_a_forked_child_that_leaves_the_block_does_not_stop_the_server(programs: Programs) -> None:
    """Only the process that started the server is in charge of it."""
    text = owner(
        then="child = os.fork(); child or sys.exit(); print(os.waitpid(child, 0)[1], flush=True); sys.stdin.read()"
    )
    program = programs.start(text)
    report = program.report()
    assert program.report() == 0
    with psycopg.connect(report["dsn"]) as connection:
        assert connection.execute("SELECT n FROM mark").fetchone() == (1,)
    program.kill()
    assert_nothing_left(report)


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGTERM)", "raise KeyError"]
)
def test_every_other_end_leaves_no_server(programs: Programs, end: str) -> None:
    """An exit without clean-up, an exit, a signal and an exception are all an end."""
    program = programs.start("import signal\n" + owner(then=end))
    report = program.report()
    assert program.finish() != 0
    assert_nothing_left(report)


STUBBORN = """
    try:
        print("true", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        psycopg.connect(server.dsn).close()
        print(json.dumps(server.log_tail()), flush=True)
"""


def test_ctrl_c_reaches_the_owner_alone(programs: Programs, open_folder: Path) -> None:
    """The terminal signals its whole foreground group: server and watchdog go on in sessions of their own."""
    program = programs.start(owner(directory=open_folder / "kept", then=STUBBORN.strip()))
    report, within_try = program.report(), program.report()
    assert within_try is True
    os.killpg(program.process.pid, signal.SIGINT)
    assert "shut" not in program.report().partition("ready to accept connections")[2]
    assert program.finish() == 0
    assert_nothing_left(report)
    assert "fast shutdown" in (open_folder / "kept" / "postgres.log").read_text()


def test_a_service_manager_that_signals_everybody_gets_rid_of_the_server(programs: Programs) -> None:
    """A stop or a hang-up reaches every process of a service at once: the watchdog goes last, whatever it is told."""
    program = programs.start(owner())
    report = program.report()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(report["watchdog"], number)
    program.kill()
    assert_nothing_left(report)


def test_a_frozen_server_is_ended_too(programs: Programs) -> None:
    """A stopped process takes no polite request: after a while it is killed."""
    program = programs.start(owner())
    report = program.report()
    for pid in report["processes"]:
        os.kill(pid, signal.SIGSTOP)
    program.kill()
    assert_nothing_left(report)


def test_an_owner_killed_while_it_makes_the_data_leaves_nothing(
    programs: Programs, open_folder: Path
) -> None:
    """Initdb and what it has started end with the owner; a half-made data folder is not taken for data."""
    program = programs.start(owner(directory=open_folder / "kept"))
    eventually(lambda: any(open_folder.glob("kept/*.unfinished/base")), what="initdb is at work")
    program.kill()
    eventually(
        lambda: not any(map(_works_for_initdb, Path("/proc").iterdir())), what="initdb is gone", seconds=15
    )
    with EmbeddedPostgres(open_folder / "kept"):
        assert not any(open_folder.glob("kept/*.unfinished"))


def _works_for_initdb(entry: Path) -> bool:
    try:
        return b".unfinished" in (entry / "cmdline").read_bytes()
    except OSError:
        return False


def test_kept_data_survives_a_killed_owner_and_opens_again_at_once(
    programs: Programs, open_folder: Path
) -> None:
    """The next start waits for the watchdog of a dead owner, recovers, and finds what was committed."""
    program = programs.start(owner(directory=open_folder / "kept"))
    report = program.report()
    program.kill()
    with EmbeddedPostgres(open_folder / "kept") as server:
        assert_nothing_left(report)
        assert marks(server) == 1


def test_data_opens_again_although_a_forked_child_of_the_dead_owner_holds_the_lock_file(
    programs: Programs, open_folder: Path
) -> None:
    """The watchdog gives the lock up for every copy of the descriptor."""
    then = "child = os.fork(); child or sys.stdin.read(); print(child, flush=True); sys.stdin.read()"
    program = programs.start(owner(directory=open_folder / "kept", then=then))
    report = program.report()
    worker = program.report()
    program.kill()
    assert_nothing_left(report)
    assert "immediate shutdown" in (open_folder / "kept" / "postgres.log").read_text()
    with EmbeddedPostgres(open_folder / "kept") as server:
        assert marks(server) == 1
    os.kill(worker, signal.SIGKILL)


def test_a_stop_cleans_up_although_the_watchdog_was_killed() -> None:
    """Without its watchdog the owner does the work itself."""
    with EmbeddedPostgres(durable=False) as server:
        assert server._watchdog is not None
        assert server._folders is not None
        folders = server._folders.temporary
        server._watchdog.kill()
        server._watchdog.wait()
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


WITHOUT_PIDFD = """
import os, runpy, sys
def refuse(*_): raise OSError
os.pidfd_open = refuse
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def test_the_watchdog_needs_no_pidfd(open_folder: Path) -> None:
    """Where the kernel or a container forbids pidfd_open, the closed pipe is sign enough."""
    left = open_folder / "left"
    left.mkdir()
    lock = os.open(open_folder / "lock", os.O_CREAT | os.O_RDWR)
    arguments = [watchdog.__file__, str(os.getpid()), str(os.getuid()), "no-such-token", str(lock), str(left)]
    command = [sys.executable, "-c", WITHOUT_PIDFD, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[lock]) as process:
        assert process.stdin is not None
        assert process.poll() is None
        assert left.exists()
        process.stdin.close()
        assert process.wait(15) == 0
    os.close(lock)
    assert not left.exists()
