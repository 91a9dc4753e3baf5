"""Over TCP an embedded server opens to a password alone, and only where it was asked to."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.marks import ask
from webhook_inbox.embedded import EmbeddedPostgres, launch
from webhook_inbox.errors import EmbeddedPostgresError


def test_without_tcp_it_listens_on_its_socket_alone(cluster: EmbeddedPostgres) -> None:
    """No port is taken, and no rule would let anybody in over the network."""
    assert ask(cluster.dsn, "SHOW listen_addresses") == ""
    assert ask(cluster.dsn, "SELECT string_agg(type, ',') FROM pg_hba_file_rules") == "local,local"
    with pytest.raises(EmbeddedPostgresError, match="tcp=True"):
        assert cluster.tcp_dsn


def test_tcp_asks_for_the_password_and_the_password_is_nowhere_to_read() -> None:
    """P-QUIET. On 127.0.0.1 only scram-sha-256 opens; the password is in no log, command line, statement or repr."""
    settings = {"log_statement": "all", "log_connections": "on", "listen_addresses": "*"}
    with EmbeddedPostgres(durable=False, tcp=True, settings=settings) as server:
        dsn = server.tcp_dsn
        password = psycopg.conninfo.conninfo_to_dict(dsn)["password"]
        assert isinstance(password, str)
        assert len(password) >= 32
        assert ask(dsn, "SELECT host(inet_server_addr())") == "127.0.0.1"
        assert ask(dsn, "SHOW listen_addresses") == "127.0.0.1"
        assert ask(dsn, "SELECT auth_method FROM pg_hba_file_rules WHERE type <> 'local'") == "scram-sha-256"
        for wrong in (dsn.replace(password, "wrong"), dsn.replace(f":{password}", "")):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(wrong)
        assert "ALTER ROLE" in server.log_tail(1000)
        assert password not in server.log_tail(1000)
        lines = [command_line(pid) for pid in server.processes()]
        assert any(lines)
        assert not any(password.encode() in line for line in lines)
        assert password not in repr(server) + repr(vars(server))
        server.kill()
        server.start()
        assert server.tcp_dsn == dsn
        assert ask(dsn, "SELECT 1") == 1


def test_tcp_takes_another_port_when_somebody_else_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between choosing a port and binding it, it can be lost; a new server moves on to another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])
        real = launch._free_port
        monkeypatch.setattr(launch, "_free_port", lambda: next(ports, None) or real())
        with EmbeddedPostgres(durable=False, tcp=True) as server:
            assert ask(server.tcp_dsn, "SHOW port") != str(taken.getsockname()[1])


def command_line(pid: int) -> bytes:
    """What a process was started with; nothing where it has ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
