"""An audit names the mistakes of the broken three from outside, and finds nothing wrong with ours."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.fixtures.sql_command import sql_command
from webhook_inbox.demo.events import Invoice, write_event
from webhook_inbox.demo.receivers import four_receivers, queued_receiver
from webhook_inbox.demo.servers import ReceiverServer
from webhook_inbox.demo.stage import Stage
from webhook_inbox.demo.story import SECRET, set_stage
from webhook_inbox.testing.audit import CHECKS, Report, Settings, audit

# It waits for the ten seconds that a body may take; the examples are audited with a shorter deadline.
QUICK = frozenset(check.id for check in CHECKS) - {"slow-body", "large-declared"}
PAYMENTS = "SELECT count(*) FROM ledger_entries WHERE invoice_id = %(data.object.id)s"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Ours, inline and queued, and the broken three, in processes of their own."""
    with set_stage(four_receivers(), queued=queued_receiver()) as stage:
        assert stage.later is not None
        stage.later.start_worker()
        yield stage


def server_of(stage: Stage, name: str) -> ReceiverServer:
    """The receiver of that name."""
    assert stage.later is not None
    return next(each for each in (*stage.servers, *stage.later.servers) if each.receiver.name == name)


def examine(stage: Stage, name: str, *, table: str = "ledger_entries", only: frozenset[str]) -> Report:
    """Audit one with an invoice and its payment, while *table* is missing for the checks that ask for a failure."""
    server = server_of(stage, name)
    invoice = Invoice(name="audited", amount=4900, created=int(time.time()) - 3600)
    missing = f"{server.receiver.schema}.{table}"
    return audit(
        Settings(
            url=server.url,
            source="stripe",
            secret=SECRET,
            payloads=[
                write_event("invoice.paid", invoice).body,
                write_event("invoice.created", invoice).body,
            ],
            fresh=["id", "data.object.id"],
            database=server.receiver.dsn(stage.database.dsn),
            effects_sql=PAYMENTS,
            effect_seconds=20 if name.startswith("ours") else 0.5,
            still_seconds=0.5,
            breaking=sql_command(stage.database.dsn, f"ALTER TABLE {missing} RENAME TO gone"),
            mending=sql_command(
                stage.database.dsn, f"ALTER TABLE {server.receiver.schema}.gone RENAME TO {table}"
            ),
            seed=sum(map(ord, name)),
            only=only,
        )
    )


@pytest.mark.parametrize("name", ["ours", "ours queued"])
def test_ours_is_graded_a(stage: Stage, name: str) -> None:
    """P-RAW, P-ACK, P-DUP, P-ONCE, P-CALM, seen from outside: inline, and queued with its worker."""
    report = examine(stage, name, only=QUICK)
    assert (report.grade, report.failed(), report.mistakes()) == ("A", [], []), "\n".join(report.lines())
    assert {verdict.state for check, verdict in report.verdicts.items() if check.id in QUICK} == {"passed"}


@pytest.mark.parametrize(
    ("name", "table", "check"),
    [
        ("mark first", "ledger_entries", "failure-redelivered"),
        ("mark after", "ledger_entries", "duplicate-at-once"),
        ("any error", "webhook_events", "failure-acknowledged"),
    ],
)
def test_each_of_the_broken_three_is_told_its_mistake(
    stage: Stage, name: str, table: str, check: str
) -> None:
    """By name, with grade F; what it does right is not held against it."""
    only = frozenset(
        each for each in QUICK if each.startswith(("failure-", "duplicate-", "signature-", "raw-"))
    )
    report = examine(stage, name, table=table, only=only)
    assert (report.grade, report.mistakes(), report.failed()) == ("F", [name], [check]), "\n".join(
        report.lines()
    )
