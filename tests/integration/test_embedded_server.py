"""An embedded server starts, answers, takes every kind of stop, and goes away without a trace."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.marks import ask, leave_a_mark, marks
from tests.fixtures.origins import ORIGINS
from tests.fixtures.programs import eventually
from webhook_inbox.embedded import EmbeddedPostgres, StopMode, find_binaries, provide_postgres, watchdog
from webhook_inbox.errors import EmbeddedPostgresError


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_server_answers_as_soon_as_it_has_started_and_leaves_nothing(origin: str) -> None:
    """Ready means a query was answered; stopped means no process and no folder of it is left."""
    with EmbeddedPostgres(binaries=origin) as server:
        assert ask(server.dsn, "SHOW server_encoding") == "UTF8"
        assert ask(server.dsn, "SHOW server_version").split()[0] == server.version
        assert server.binaries.origin == origin
        token, uid = ask(server.dsn, "SHOW cluster_name"), server.data.stat().st_uid
        folders = [server.data.parent, Path(ask(server.dsn, "SHOW unix_socket_directories").strip('"'))]
        main = int((server.data / "postmaster.pid").read_text().split()[0])
        assert server.processes()[0] == watchdog.members(token, uid)[0] == main
    assert watchdog.members(token, uid) == []
    assert not any(folder.exists() for folder in folders)


def test_the_defaults_are_durable_and_undurable_still_commits_synchronously() -> None:
    """P-ACK tests stand on this: ``durable=False`` gives up only what a crash of the operating system takes."""
    settings = ("fsync", "full_page_writes", "synchronous_commit")
    with EmbeddedPostgres() as server:
        assert [ask(server.dsn, f"SHOW {name}") for name in settings] == ["on", "on", "on"]
    with EmbeddedPostgres(durable=False) as server:
        assert [ask(server.dsn, f"SHOW {name}") for name in settings] == ["off", "off", "on"]


def test_a_directory_keeps_its_data_and_a_temporary_one_does_not(open_folder: Path) -> None:
    """The next start finds what was committed; without a directory every start is new."""
    with EmbeddedPostgres(open_folder / "kept") as server:
        leave_a_mark(server)
    again = EmbeddedPostgres(open_folder / "kept")
    with again:
        assert marks(again) == 1
    with EmbeddedPostgres() as server:
        leave_a_mark(server)
        server.stop()
        server.start()
        with pytest.raises(psycopg.errors.UndefinedTable):
            marks(server)


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_a_halted_server_comes_back_at_the_same_address_with_its_data(
    cluster: EmbeddedPostgres, mode: StopMode
) -> None:
    """All three ways of stopping keep what was committed; meanwhile nobody answers."""
    leave_a_mark(cluster)
    dsn = cluster.dsn
    cluster.halt(mode)
    assert cluster.processes() == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    cluster.start()
    assert cluster.dsn == dsn
    assert marks(cluster) == 1


def test_a_smart_stop_that_clients_hold_up_ends_in_its_time() -> None:
    """A client that never leaves costs ``stop_seconds_max``, not the stop."""
    with EmbeddedPostgres(durable=False, stop_seconds_max=0.5) as server, psycopg.connect(server.dsn):
        started = time.monotonic()
        server.halt("smart")
        assert 0.5 <= time.monotonic() - started < 10
        assert server.processes() == []


def test_kill_ends_every_process_and_start_recovers(cluster: EmbeddedPostgres) -> None:
    """Backends lead sessions of their own and one is deep in a query: all of them die with the server."""
    leave_a_mark(cluster)
    with psycopg.connect(cluster.dsn) as connection:
        backend = connection.info.backend_pid
        busy = threading.Thread(target=_suffer, args=(connection,), daemon=True)
        busy.start()
        eventually(lambda: _active(cluster) == 1, what="the query runs")
        assert backend in cluster.processes()
        cluster.kill()
        busy.join(15)
        assert not busy.is_alive()
    assert cluster.processes() == []
    eventually(lambda: not Path(f"/proc/{backend}").exists(), what="the busy backend is dead and buried")
    cluster.start()
    assert marks(cluster) == 1


def _suffer(connection: psycopg.Connection[Any]) -> None:
    # Never waits for a latch, so that it does not notice by itself that the main process died.
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 1000) b")


def _active(cluster: EmbeddedPostgres) -> Any:
    return ask(
        cluster.dsn,
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT count(*) FROM gen%'",
    )


def test_a_server_whose_main_process_died_alone_starts_again(cluster: EmbeddedPostgres) -> None:
    """Backends that outlive their postmaster hold its shared memory: ``start()`` ends them first."""
    leave_a_mark(cluster)
    with psycopg.connect(cluster.dsn) as connection:
        busy = threading.Thread(target=_suffer, args=(connection,), daemon=True)
        busy.start()
        eventually(lambda: _active(cluster) == 1, what="the query runs")
        os.kill(cluster.processes()[0], 9)
        eventually(lambda: not cluster.running, what="the main process is dead")
        assert cluster.processes() != []
        cluster.start()
        busy.join(15)
        assert not busy.is_alive()
    assert marks(cluster) == 1


def test_many_servers_run_beside_one_another() -> None:
    """Four started at the same moment have their own data, their own sockets and their own ports."""
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        servers = [EmbeddedPostgres(durable=False, tcp=True) for _ in range(4)]
        for server in servers:
            stack.callback(server.stop)
        list(pool.map(EmbeddedPostgres.start, servers))
        assert (
            len({ask(server.dsn, "SELECT system_identifier FROM pg_control_system()") for server in servers})
            == 4
        )
        assert len({ask(server.tcp_dsn, "SHOW port") for server in servers}) == 4


def test_a_start_does_not_wait_for_another_that_hangs(open_folder: Path) -> None:
    """There is no lock that all servers share: one whose initdb never ends holds up nobody."""
    stuck = open_folder / "bin"
    stuck.mkdir()
    (stuck / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n")
    (stuck / "initdb").write_text(f"#!/bin/sh\ntouch '{open_folder}/hangs' 2>/dev/null; exec sleep 60\n")
    for program in stuck.iterdir():
        program.chmod(0o755)
    open_folder.chmod(0o777)
    hanging = EmbeddedPostgres(binaries=stuck, start_seconds_max=3)
    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(hanging.start)
        eventually((open_folder / "hangs").exists, what="the first start hangs")
        with EmbeddedPostgres(durable=False) as server:
            assert ask(server.dsn, "SELECT 1") == 1
            assert not failing.done()
        with pytest.raises(EmbeddedPostgresError, match="longer than"):
            failing.result()


@pytest.mark.parametrize(
    ("settings", "seconds", "text"),
    [({"shared_buffers": "weird"}, 60, "shared_buffers"), ({}, 0.05, "longer than|did not start")],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], seconds: float, text: str
) -> None:
    """The error holds what the server said, within the time given; no folder and no process remains."""
    monkeypatch.setattr(tempfile, "tempdir", str(open_folder))
    server = EmbeddedPostgres(settings=settings, start_seconds_max=seconds)
    with pytest.raises(EmbeddedPostgresError, match=text):
        server.start()
    assert list(open_folder.iterdir()) == []
    assert not server.running
    server.stop()


def test_a_system_without_the_utf8_locale_gets_the_plain_one(open_folder: Path) -> None:
    """The text is UTF-8 either way; where the C library knows no C.UTF-8, the data is made with C."""
    real = find_binaries().folder
    choosy = open_folder / "bin"
    choosy.mkdir()
    refusal = 'case "$*" in *C.UTF-8*) echo "initdb: error: invalid locale name" >&2; exit 1;; esac'
    (choosy / "initdb").write_text(f"#!/bin/sh\n{refusal}\nexec '{real}/initdb' \"$@\"\n")
    (choosy / "postgres").write_text(f"#!/bin/sh\nexec '{real}/postgres' \"$@\"\n")
    for program in choosy.iterdir():
        program.chmod(0o755)
    catalog = "SELECT datcollate || ' ' || pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'postgres'"
    with EmbeddedPostgres(durable=False) as server:
        assert ask(server.dsn, catalog) in {"C.UTF-8 UTF8", "C UTF8"}
    with EmbeddedPostgres(durable=False, binaries=choosy) as server:
        assert ask(server.dsn, catalog) == "C UTF8"


def test_a_server_that_is_not_started_says_so() -> None:
    """Every question about a server that never ran has one answer, and stopping it is harmless."""
    server = EmbeddedPostgres()
    server.stop()
    for question in (
        lambda: server.dsn,
        lambda: server.version,
        server.log_tail,
        server.kill,
        server.restart,
    ):
        with pytest.raises(EmbeddedPostgresError, match="not been started"):
            question()
    with server, pytest.raises(EmbeddedPostgresError, match="runs already"):
        server.start()


def test_a_dsn_that_is_given_comes_before_any_server() -> None:
    """``provide_postgres`` starts nothing where a DSN is given, and a server of its own where none is."""
    with provide_postgres("postgresql://given.invalid/db") as dsn:
        assert dsn == "postgresql://given.invalid/db"
    with provide_postgres(None, durable=False) as dsn:
        assert ask(dsn, "SELECT 1") == 1
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
