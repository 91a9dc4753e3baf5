"""Each result of a delivery is one log record; what somebody must look at is above INFO, with its reason."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry.results import log_result


@pytest.mark.parametrize(
    ("outcome", "told", "logged"),
    [
        ("processed", False, ("event_settled", "INFO", 'endpoint shop: event "evt_1": processed')),
        ("duplicate", False, ("event_settled", "INFO", 'endpoint shop: event "evt_1": duplicate')),
        ("dead", False, ("event_dead", "ERROR", 'endpoint shop: event "evt_1" is dead: not wanted')),
        ("dead", True, ("event_settled", "INFO", 'endpoint shop: event "evt_1": dead')),
        (
            "quarantined",
            False,
            (
                "event_quarantined",
                "WARNING",
                'endpoint shop: a delivery is quarantined as "evt_1": not wanted',
            ),
        ),
    ],
)
def test_a_result_is_logged_once_at_the_level_it_deserves(
    caplog: pytest.LogCaptureFixture, outcome: str, told: bool, logged: tuple[str, str, str]
) -> None:
    """With its facts as attributes, whatever the level."""
    result = EventResult(outcome=Outcome(outcome), event_id="evt_1", reason="not wanted")
    with caplog.at_level(logging.INFO, logger="webhook_inbox"):
        log_result("shop", result, dead_is_told=told)
    [record] = caplog.records
    assert (record.__dict__["event"], record.levelname, record.getMessage()) == logged
    facts = {name: record.__dict__[name] for name in ("endpoint", "event_id", "outcome")}
    assert facts == {"endpoint": "shop", "event_id": "evt_1", "outcome": outcome}


def test_another_body_under_a_known_id_is_above_the_ordinary(caplog: pytest.LogCaptureFixture) -> None:
    """One record still, and a duplicate like any other; somebody has to look at it all the same."""
    result = EventResult(outcome=Outcome.DUPLICATE, event_id="evt_1", conflicting=True)
    with caplog.at_level(logging.INFO, logger="webhook_inbox"):
        log_result("shop", result, dead_is_told=False)
    [record] = caplog.records
    assert (record.__dict__["event"], record.levelname) == ("event_conflicting", "WARNING")
    assert record.getMessage() == 'endpoint shop: event "evt_1": duplicate, with another body than before'


def test_what_nobody_handles_is_told_with_its_type(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt ``on(...)`` shows in the log of whoever tries it out; the type cannot begin a line of its own."""
    result = EventResult(
        outcome=Outcome.IGNORED,
        event_id="evt_1",
        reason="no handler for invoice.paid",
        unhandled_type="invoice.paid",
    )
    with caplog.at_level(logging.INFO, logger="webhook_inbox"):
        log_result("shop", result, dead_is_told=False)
        log_result(
            "shop", replace(result, reason="no handler for a\nb", unhandled_type="a\nb"), dead_is_told=False
        )
    assert [record.getMessage() for record in caplog.records] == [
        'endpoint shop: event "evt_1": ignored, no handler for "invoice.paid"',
        'endpoint shop: event "evt_1": ignored, no handler for "a\\nb"',
    ]
