"""What the migration plans ask for: the lock first, then a look, then one step in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.plans import Played, play
from webhook_inbox.errors import MIGRATE_INBOX, KeyBusyError, SchemaVersionError, StoreUnavailableError
from webhook_inbox.protocol.migrate import (
    LOCK_WAIT_SECONDS,
    LOOK_SECONDS_MAX,
    SchemaStatus,
    check_ready,
    check_schema,
    migrate,
    migrate_command,
    schema_status,
)
from webhook_inbox.protocol.steps import Begin, Script
from webhook_inbox.sql.migrations import PARTITION_DAYS_AHEAD, bootstrap, migrations

STEPS = migrations("webhooks")
NAMES = [f"{step.version:04}_{step.name}" for step in STEPS]
THERE, NOT_THERE = (True,), (False,)
APPLIED = [(step.version, step.name, step.serves_from) for step in STEPS]


def test_from_nothing_every_step_is_applied_in_a_transaction_of_its_own() -> None:
    """Lock, look, step, record, commit; the schema itself with the first; partitions in the end."""
    answers: list[object] = [None, NOT_THERE, None, None, None, None]
    names = ["migration_lock", "migrations_exist", "bootstrap", NAMES[0], "record_migration", "commit"]
    for done in range(1, len(STEPS)):
        answers += [None, THERE, APPLIED[:done], None, None, None]
        names += [
            "migration_lock",
            "migrations_exist",
            "migrations_applied",
            NAMES[done],
            "record_migration",
            "commit",
        ]
    answers += [None, THERE, APPLIED, None]
    names += ["migration_lock", "migrations_exist", "migrations_applied", "rollback"]
    names += ["migration_lock", "make_partitions", "commit"]
    played = play(migrate("webhooks"), answers)
    assert [
        step.statement.name if isinstance(step, Begin) else name
        for step, name in zip(played.steps, played.names, strict=True)
    ] == names
    assert played.value == tuple(NAMES)
    assert played.params("record_migration") == [
        {"version": step.version, "name": step.name, "serves_from": step.serves_from} for step in STEPS
    ]
    assert played.params("make_partitions") == [{"days_ahead": PARTITION_DAYS_AHEAD}]
    assert played.params("migrations_exist") == [{"schema": "webhooks"}] * (len(STEPS) + 1)
    scripts = [step for step in played.steps if isinstance(step, Script)]
    assert [script.text for script in scripts] == [bootstrap("webhooks"), *(step.text for step in STEPS)]


def test_every_transaction_takes_the_lock_and_is_bounded_in_waiting_for_it() -> None:
    """Each step again, so that two migrators take turns; the schema's own lock."""
    played = play(migrate("a b", lock_wait_seconds=1.25), [None, THERE, APPLIED])
    assert played.params("migration_lock") == [{"schema": "a b", "lock_ms": 1250}] * 2
    default = play(migrate("webhooks"), [None, THERE, APPLIED])
    assert default.params("migration_lock")[0]["lock_ms"] == LOCK_WAIT_SECONDS * 1000


def test_what_is_applied_already_is_not_applied_again() -> None:
    """Nothing but a look and the partitions; steps of a newer release do not matter."""
    for applied in (APPLIED, [*APPLIED, (len(STEPS) + 1, "later", 1)]):
        played = play(migrate("webhooks"), [None, THERE, applied])
        assert played.value == ()
        assert [step for step in played.steps if isinstance(step, Script)] == []


def test_a_table_of_migrations_that_is_empty_is_a_beginning() -> None:
    """Somebody made it, and nothing was applied."""
    played = play(migrate("webhooks"), [None, THERE, []])
    assert played.names[3:5] == ["bootstrap", NAMES[0]]


@pytest.mark.parametrize("position", range(6))
def test_a_migration_that_fails_raises_out_of_the_plan(position: int) -> None:
    """The driver rolls its transaction back."""
    answers: list[object] = [None, NOT_THERE, None, None, None, None]
    answers[position] = error = KeyBusyError("x")
    played = play(migrate("webhooks"), answers)
    assert played.error is error
    assert len(played.steps) == position + 1


def status(applied: list[tuple[Any, ...]] | None) -> Played[SchemaStatus]:
    """Play the look at a schema, with what its table says; None: there is no table."""
    return play(schema_status("webhooks"), [None, NOT_THERE if applied is None else THERE, applied])


def test_the_look_at_a_schema_changes_nothing_and_is_bounded() -> None:
    """It rolls back, and does not hang where somebody has locked the table."""
    played = status(APPLIED)
    assert played.names[1:] == ["migrations_exist", "migrations_applied", "rollback"]
    assert isinstance(played.steps[0], Begin)
    assert played.steps[0].seconds_max == LOOK_SECONDS_MAX
    assert status(None).names[1:] == ["migrations_exist", "rollback"]


KNOWN = len(STEPS)


@pytest.mark.parametrize(
    ("applied", "expected", "served", "pending"),
    [
        (None, (0, 0), False, KNOWN),
        ([], (0, 0), False, KNOWN),
        (APPLIED[:1], (1, 1), False, KNOWN - 1),
        (APPLIED, (KNOWN, max(row[2] for row in APPLIED)), True, 0),
        ([*APPLIED, (KNOWN + 1, "later", KNOWN)], (KNOWN + 1, KNOWN), True, 0),
        ([*APPLIED, (KNOWN + 1, "later", KNOWN + 1)], (KNOWN + 1, KNOWN + 1), False, 0),
        ([*APPLIED, (KNOWN + 1, "x", KNOWN + 1), (KNOWN + 2, "y", 1)], (KNOWN + 2, KNOWN + 1), False, 0),
    ],
)
def test_how_a_schema_stands_to_this_release(
    applied: list[tuple[Any, ...]] | None, expected: tuple[int, int], served: bool, pending: int
) -> None:
    """Its newest step, and the most that any of its steps asks for."""
    found = status(applied).value
    assert found is not None
    assert (found.schema, found.known) == ("webhooks", KNOWN)
    assert (found.applied, found.serves_from) == expected
    assert (found.served, found.pending) == (served, pending)


@pytest.mark.parametrize(
    ("applied", "says"),
    [
        (
            None,
            f"schema 'webhooks' is not there, this release needs version {KNOWN}: run {MIGRATE_INBOX}",
        ),
        (
            APPLIED[:1],
            f"schema 'webhooks' is at version 1, this release needs version {KNOWN}: run {MIGRATE_INBOX}",
        ),
        (
            [*APPLIED, (KNOWN + 2, "later", KNOWN + 1)],
            (
                f"schema 'webhooks' is at version {KNOWN + 2} and needs a release that knows "
                f"version {KNOWN + 1} or later; this one knows {KNOWN}: upgrade webhook-inbox"
            ),
        ),
    ],
)
def test_a_schema_that_cannot_be_served_is_refused_with_what_helps(
    applied: list[tuple[Any, ...]] | None, says: str
) -> None:
    """Which side is to be upgraded, and how."""
    played = play(check_schema("webhooks"), [None, NOT_THERE if applied is None else THERE, applied])
    assert isinstance(played.error, SchemaVersionError)
    assert str(played.error) == says


def test_a_schema_that_can_be_served_passes() -> None:
    """And nothing more is asked."""
    played = play(check_schema("webhooks"), [None, THERE, APPLIED])
    assert (played.error, played.value, len(played.steps)) == (None, None, 4)


@pytest.mark.parametrize(
    ("schema", "command"),
    [
        ("webhooks", "webhook-inbox migrate"),
        ("other", "webhook-inbox migrate --schema other"),
        ('it\'s "odd"', "webhook-inbox migrate --schema 'it'\"'\"'s \"odd\"'"),
    ],
)
def test_the_command_can_be_typed_as_it_stands(schema: str, command: str) -> None:
    """Quoted for a shell."""
    assert migrate_command(schema) == command


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_that_cannot_be_written_to_is_not_ready(read_only: bool) -> None:
    """The schema first, then whether this server takes writes."""
    played = play(check_ready("webhooks"), [None, THERE, APPLIED, None, (read_only,)])
    assert played.names[4:] == ["begin", "rollback"]
    begin = played.steps[4]
    assert (begin.statement.name, begin.seconds_max) == ("read_only", LOOK_SECONDS_MAX)
    if not read_only:
        assert played.error is None
        return
    assert isinstance(played.error, StoreUnavailableError)
    assert (str(played.error), played.error.sqlstate) == ("the database is read-only (a failover?)", "25006")


def test_a_schema_that_cannot_be_served_is_not_ready() -> None:
    """Nothing is asked of the server then."""
    assert isinstance(play(check_ready("webhooks"), [None, NOT_THERE]).error, SchemaVersionError)
