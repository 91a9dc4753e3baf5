"""Every example is given the best grade by an audit that knows nothing of it but its URL, its secret and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples.apps import APPS, Example
from tests.examples.stage import Stage
from tests.fixtures.cli import Cli
from tests.fixtures.sql_command import sql_command
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.testing.audit import CHECKS, Report, Settings, audit

EVERY = pytest.mark.parametrize("example", [pytest.param(each, id=each.folder) for each in APPS])
ALL = frozenset(check.id for check in CHECKS)
#: What a worker could do otherwise than a request does; the rest is asked of the same code.
OF_EFFECTS = frozenset(each for each in ALL if each.startswith(("duplicate-", "cut-", "failure-", "forged-")))
# Django's development server reads a body for as long as it takes, before anybody else is asked.
WITHOUT_DEADLINE = {"django_orm"}


@contextmanager
def staged(example: Example, cli: Cli, database: str, logs: Path, *, inline: bool) -> Iterator[Stage]:
    """An example, migrated and running, with a deadline for bodies that does not keep the test waiting."""
    environment = {**cli.environment, "WEBHOOK_INBOX_BODY_SECONDS_MAX": "1"}
    stage = Stage(example, database, inline=inline, environment=environment, logs=logs)
    try:
        stage.migrate()
        stage.start()
        yield stage
    finally:
        stage.close()


def examine(stage: Stage, database: str, only: frozenset[str]) -> Report:
    """Audit an example with its own event, whose table is gone for the checks that ask for a failure."""
    example = stage.example
    source = example.source(stage.url)
    table, gone = example.table, f"{example.table}_gone"
    return audit(
        Settings(
            url=stage.url,
            source=source.provider,
            secret=example.secret or secrets_of(source.secrets, setting="")[0].reveal(),
            payloads=[json.dumps(example.payload("evt_of_the_example")).encode()],
            fresh=[example.event_path],
            event_type=example.event_type,
            database=database,
            effects_sql=f"SELECT count(*) FROM {table} WHERE event_id LIKE %(event_id)s || '%%'",
            still_seconds=0.5,
            breaking=sql_command(database, f"ALTER TABLE {table} RENAME TO {gone}"),
            mending=sql_command(database, f"ALTER TABLE {gone} RENAME TO {table}"),
            only=only,
        )
    )


@EVERY
def test_inline_it_is_graded_a(example: Example, cli: Cli, empty_database: str, tmp_path: Path) -> None:
    """Signatures, copies, cuts, hostile input and a failing table: nothing is lost, doubled or forged."""
    slow = {"slow-body"} if example.folder in WITHOUT_DEADLINE else set()
    with staged(example, cli, empty_database, tmp_path, inline=True) as stage:
        report = examine(stage, empty_database, ALL - slow)
    assert (report.grade, report.failed()) == ("A", []), "\n".join(report.lines())


@EVERY
def test_queued_it_loses_and_doubles_nothing(
    example: Example, cli: Cli, empty_database: str, tmp_path: Path
) -> None:
    """Copies, cuts and a failing table, with the example's own worker: acknowledged at once, and done once."""
    with staged(example, cli, empty_database, tmp_path, inline=False) as stage:
        report = examine(stage, empty_database, OF_EFFECTS)
    states = {check.id: verdict.state for check, verdict in report.verdicts.items()}
    assert {states[name] for name in OF_EFFECTS} == {"passed"}, "\n".join(report.lines())
