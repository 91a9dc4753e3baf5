"""
Run PgBouncer in transaction mode between the tests and their PostgreSQL, on a Unix socket that only we can reach.

It runs as the account of the embedded server, which may enter that server's folder; PgBouncer refuses to run as root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.fixtures.postgres import uri
from webhook_inbox.embedded.account import server_account

POOL_SIZE = 3
PORT = 6432
SECONDS_MAX = 20.0
_SETTINGS = """
[databases]
* = host='{host}' port={port} user={user}

[pgbouncer]
unix_socket_dir = {folder}
listen_port = {own_port}
unix_socket_mode = 0700
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 300
logfile = {folder}/log
"""


@dataclass(frozen=True, slots=True)
class PgBouncer:
    """
    Hold a running pooler.

    Attributes:
        folder: Of its socket.
        user: As whom it connects.
    """

    folder: Path
    user: str

    def dsn_of(self, dsn: str) -> str:
        """Say how to reach the database of *dsn* through the pooler."""
        dbname = conninfo_to_dict(dsn)["dbname"]
        return uri(user=self.user, dbname=dbname, host=str(self.folder), port=PORT)

    def log(self) -> str:
        """Give what it has logged."""
        return (self.folder / "log").read_text()


@contextmanager
def running(dsn: str, *, pool_size: int = POOL_SIZE) -> Iterator[PgBouncer]:
    """Run a pooler in front of the server of *dsn*, with *pool_size* server connections for each database."""
    found = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    assert found is not None, "PgBouncer is not installed; on Debian: apt-get install pgbouncer"
    server = conninfo_to_dict(dsn)
    account = server_account(Path(str(server["host"])).stat().st_uid if os.geteuid() == 0 else None)
    with tempfile.TemporaryDirectory(prefix="pooler-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                host=server["host"],
                port=server["port"],
                user=server["user"],
                folder=folder,
                own_port=PORT,
                pool_size=pool_size,
            )
        )
        for path in (folder, settings):
            account.own(path)
        process = subprocess.Popen([found, "--quiet", str(settings)], cwd=folder, **account.identity)
        try:
            pooler = PgBouncer(folder, str(server["user"]))
            _await_answer(pooler.dsn_of(dsn), process)
            yield pooler
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
            process.kill()
            process.wait()


def _await_answer(dsn: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            with psycopg.connect(dsn, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            assert process.poll() is None, f"PgBouncer ended with {process.returncode}"
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.02)
