"""Each result of a delivery is one log record; what somebody must look at is above INFO, with its reason."""

from __future__ import annotations

import logging

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
