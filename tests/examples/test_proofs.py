"""Every example's handler holds under ``prove``, by the command that its README names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.examples.apps import APPS, Example
from tests.examples.stage import Stage
from tests.fixtures.cli import SECONDS_MAX, Cli

ON_ITS_OWN = "webhook-inbox prove app:inbox events/ --setup schema.sql --one-id"
PROOFS = {
    "django_orm": "DJANGO_SETTINGS_MODULE=project.settings webhook-inbox prove shop.webhooks:inbox events/ "
    '--type orders/paid --database "$DATABASE_URL" --one-id',
    "fastapi_sqlalchemy": 'webhook-inbox prove app:inbox events/ --database "$DATABASE_URL" --one-id',
    "flask_psycopg": ON_ITS_OWN,
    "litestar_asyncpg": ON_ITS_OWN,
    "starlette_psycopg": ON_ITS_OWN,
}


@pytest.mark.parametrize("example", [pytest.param(each, id=each.folder) for each in APPS])
def test_it_holds(example: Example, cli: Cli, empty_database: str, tmp_path: Path) -> None:
    """Copies, and a crash before each statement, on the example's own kind of connection."""
    command = PROOFS[example.folder]
    assert command in (example.home / "README.md").read_text(encoding="utf-8")
    stage = Stage(example, empty_database, inline=False, environment=cli.environment, logs=tmp_path)
    try:
        if command != ON_ITS_OWN:
            stage.migrate()
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=example.home,
            env=stage.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    finally:
        stage.close()
    assert (done.returncode, done.stdout.endswith("it holds\n")) == (0, True), done.stdout + done.stderr
