"""Set up our own tables, as a user does."""

from __future__ import annotations

import sys

from benchmarks.harness.processes import run
from benchmarks.harness.server import Database


def migrate(database: Database) -> None:
    """Run ``webhook-inbox migrate``."""
    run([sys.executable, "-m", "webhook_inbox", "migrate"], environment={"DATABASE_URL": database.dsn})
