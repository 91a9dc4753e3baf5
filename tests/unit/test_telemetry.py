"""One registry names every metric and log event; what is counted, logged and documented is exactly that."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from pathlib import Path

import pytest

import webhook_inbox
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry import events, registry
from webhook_inbox.telemetry.events import LOG_EVENTS, LogEvent
from webhook_inbox.telemetry.reference import reference
from webhook_inbox.telemetry.registry import LABELS_MAX, METRICS, OTHER, Metric, Metrics

ROOT = Path(__file__).parents[2]
SOURCE = Path(webhook_inbox.__file__).parent


def receipt(outcome: Outcome, reason: str = "") -> Receipt:
    """A receipt that came to this."""
    return Receipt(status=200, outcome=outcome, reason=reason)


def test_every_metric_and_event_is_registered_once_and_by_a_fixed_name() -> None:
    """Dashboards and alerts are written against these names: a change here is a change for every user."""
    assert [metric.name for metric in METRICS] == [
        "webhook_inbox_body_bytes_total",
        "webhook_inbox_deliveries_total",
        "webhook_inbox_failures_total",
        "webhook_inbox_receive_seconds",
        "webhook_inbox_rejections_total",
        "webhook_inbox_requests_in_flight",
    ]
    assert {value for value in vars(registry).values() if isinstance(value, Metric)} == set(METRICS)
    assert {value for value in vars(events).values() if isinstance(value, LogEvent)} == set(LOG_EVENTS)
    assert max(Counter(event.name for event in LOG_EVENTS).values()) == 1
    assert [event.name for event in LOG_EVENTS] == sorted(event.name for event in LOG_EVENTS)


def test_what_is_exposed_is_what_is_registered() -> None:
    """Every registered metric has a family in the exposition, of its kind and with its labels; there is no other."""
    metrics = Metrics()
    for outcome in Outcome:
        metrics.observe("billing", receipt(outcome, "some_reason"), 0.02)
    metrics.read("billing", 100)
    families = {family.name: family for family in metrics.registry.collect()}
    assert families.keys() == {metric.name.removesuffix("_total") for metric in METRICS}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(metric.labels)


def test_every_outcome_is_counted_and_every_refusal_by_its_reason() -> None:
    """4xx are rejections, 5xx are failures, and each delivery is counted once."""
    metrics = Metrics()
    for outcome in Outcome:
        metrics.observe("billing", receipt(outcome, f"because_{outcome}"), 0.02)
    value = metrics.registry.get_sample_value
    for outcome in Outcome:
        labels = {"endpoint": "billing", "outcome": outcome}
        assert value("webhook_inbox_deliveries_total", labels) == 1
    rejected = {"endpoint": "billing", "reason": "because_rejected"}
    failed = {"endpoint": "billing", "reason": "because_failed"}
    unavailable = {"endpoint": "billing", "reason": "because_unavailable"}
    assert value("webhook_inbox_rejections_total", rejected) == 1
    assert value("webhook_inbox_failures_total", failed) == 1
    assert value("webhook_inbox_failures_total", unavailable) == 1
    assert value("webhook_inbox_rejections_total", failed) is None
    assert value("webhook_inbox_receive_seconds_count", {"endpoint": "billing"}) == len(Outcome)
    assert value("webhook_inbox_receive_seconds_bucket", {"endpoint": "billing", "le": "0.025"}) == len(
        Outcome
    )
    assert value("webhook_inbox_receive_seconds_bucket", {"endpoint": "billing", "le": "0.01"}) == 0


def test_labels_stay_bounded_whatever_is_counted() -> None:
    """P-CALM: reasons or endpoints without end do not grow the registry without end."""
    metrics = Metrics()
    for number in range(LABELS_MAX + 500):
        metrics.count("billing", receipt(Outcome.REJECTED, f"reason_{number}"))
    family = next(f for f in metrics.registry.collect() if f.name == "webhook_inbox_rejections")
    counts = {sample.labels["reason"]: sample.value for sample in family.samples if "total" in sample.name}
    assert len(counts) == LABELS_MAX + 1
    assert counts[OTHER] == 500


def test_two_inboxes_count_apart() -> None:
    """Each has a registry of its own, so that two in one process, or two tests, do not meet."""
    one, other = Metrics(), Metrics()
    one.count("billing", receipt(Outcome.PROCESSED))
    assert b'outcome="processed"' in one.expose()[0]
    assert b'outcome="processed"' not in other.expose()[0]


@pytest.mark.parametrize("event", LOG_EVENTS, ids=lambda event: event.name)
def test_a_log_record_carries_its_events_name(event: LogEvent, caplog: pytest.LogCaptureFixture) -> None:
    """A filter needs no text, and no value is ever read as a format."""
    values = ["100%s"] * event.text.count("%s")
    with caplog.at_level(logging.DEBUG, logger="webhook_inbox"):
        event.log(*values)
    [record] = caplog.records
    assert (record.name, record.levelno, record.__dict__["event"]) == (
        "webhook_inbox",
        event.level,
        event.name,
    )
    assert record.getMessage() == event.text.replace("%s", "100%s")


def test_only_registered_events_are_logged() -> None:
    """No room that serves deliveries writes a log line past the registry."""
    rooms = ("http", "protocol", "runtime", "drivers", "sources", "sql", "model")
    files = [file for room in rooms for file in (SOURCE / room).rglob("*.py")] + [SOURCE / "inbox.py"]
    assert len(files) > 30
    for path in files:
        tree = ast.parse(path.read_text())
        imported = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert "logging" not in imported, path.name


def test_the_reference_page_is_the_registry_written_out() -> None:
    """``docs/reference/metrics.md`` cannot drift: it is generated, and compared here."""
    assert (ROOT / "docs/reference/metrics.md").read_text() == reference()
