"""One registry names every metric and log event; what is counted, logged and documented is exactly that."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import webhook_inbox
from webhook_inbox.model.message import SendState
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.reconciled import Completeness, Reconciled, Tally, Walked
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.telemetry import events, reconcile_events, registry, rejections, relay_events, spans
from webhook_inbox.telemetry.events import LOG_EVENTS
from webhook_inbox.telemetry.log_event import PLACE, LogEvent
from webhook_inbox.telemetry.reconcile_events import RECONCILE_EVENTS
from webhook_inbox.telemetry.reference import reference
from webhook_inbox.telemetry.registry import LABELS_MAX, METRICS, Metric, Metrics
from webhook_inbox.telemetry.rejections import REJECTION_EVENTS
from webhook_inbox.telemetry.relay_events import RELAY_EVENTS
from webhook_inbox.telemetry.spans import SPANS, SpanForm
from webhook_inbox.telemetry.tally import OTHER

ROOT = Path(__file__).parents[2]
SOURCE = Path(webhook_inbox.__file__).parent
EVERY_EVENT = (*LOG_EVENTS, *RECONCILE_EVENTS, *REJECTION_EVENTS, *RELAY_EVENTS)


def receipt(outcome: Outcome, reason: str = "") -> Receipt:
    """A receipt that came to this."""
    return Receipt(status=200, outcome=outcome, reason=reason)


def conflicting() -> Receipt:
    """A receipt for three events, of which two came with another body than before."""
    results = [EventResult(outcome=Outcome.DUPLICATE, event_id=str(n), conflicting=n > 0) for n in range(3)]
    return Receipt(status=200, outcome=Outcome.DUPLICATE, results=tuple(results))


def test_events_that_came_with_another_body_are_counted_by_themselves() -> None:
    """Beside their delivery, which is a duplicate like any other."""
    metrics = Metrics()
    metrics.observe("billing", conflicting(), 0.02)
    value = metrics.registry.get_sample_value
    assert value("webhook_inbox_conflicts_total", {"endpoint": "billing"}) == 2
    assert value("webhook_inbox_deliveries_total", {"endpoint": "billing", "outcome": "duplicate"}) == 1


def test_every_metric_and_event_is_registered_once_and_by_a_fixed_name() -> None:
    """Dashboards and alerts are written against these names: a change here is a change for every user."""
    assert [metric.name for metric in METRICS] == [
        "webhook_inbox_body_bytes_total",
        "webhook_inbox_breaker_open",
        "webhook_inbox_conflicts_total",
        "webhook_inbox_deliveries_total",
        "webhook_inbox_effect_seconds",
        "webhook_inbox_events",
        "webhook_inbox_failures_total",
        "webhook_inbox_oldest_event_seconds",
        "webhook_inbox_outbox_lag_seconds",
        "webhook_inbox_outbox_stuck_messages",
        "webhook_inbox_receive_seconds",
        "webhook_inbox_reconciled_total",
        "webhook_inbox_reconciled_timestamp_seconds",
        "webhook_inbox_rejections_total",
        "webhook_inbox_requests_in_flight",
        "webhook_inbox_runs_total",
        "webhook_inbox_sends_total",
    ]
    assert {value for value in vars(registry).values() if isinstance(value, Metric)} == set(METRICS)
    for module, listed in (
        (events, LOG_EVENTS),
        (reconcile_events, RECONCILE_EVENTS),
        (rejections, REJECTION_EVENTS),
        (relay_events, RELAY_EVENTS),
    ):
        assert {value for value in vars(module).values() if isinstance(value, LogEvent)} == set(listed)
        assert [event.name for event in listed] == sorted(event.name for event in listed)
    assert max(Counter(event.name for event in EVERY_EVENT).values()) == 1


def test_what_is_exposed_is_what_is_registered() -> None:
    """Every registered metric has a family in the exposition, of its kind and with its labels; there is no other."""
    metrics = Metrics()
    for outcome in Outcome:
        metrics.observe("billing", receipt(outcome, "some_reason"), 0.02)
    metrics.observe("billing", conflicting(), 0.02)
    metrics.read("billing", 100)
    metrics.sent("mail", SendState.SENT)
    metrics.unsettled("billing", {State.DEAD: 3}, 2.5)
    metrics.ran("billing", State.PROCESSED, datetime(2030, 1, 31, tzinfo=UTC))
    metrics.breaker("mail", is_open=True)
    metrics.lag("mail", 1.5)
    metrics.stuck(SendState.DEAD, 3)
    walk = Walked(tally=Tally(seen=3, recovered=3), found=Tally(seen=1, recovered=1))
    metrics.reconciled(Reconciled(endpoint="billing", walks=(walk,)))
    metrics.reconciled(Completeness(endpoint="billing", seconds=1.0))
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


def test_every_span_is_registered_once_and_by_a_fixed_name() -> None:
    """Searches and dashboards of traces are written against these names."""
    assert [form.operation for form in SPANS] == ["process", "receive", "send"]
    assert {value for value in vars(spans).values() if isinstance(value, SpanForm)} == set(SPANS)
    for form in SPANS:
        assert {"messaging.system", "messaging.operation.name", "messaging.destination.name"} <= set(
            form.attributes
        )


def test_a_delivery_of_several_events_is_told_by_their_number() -> None:
    """No span has a list of ids; each event's run names its own."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("receive billing") as span:
        spans.received(span, conflicting())
    [told] = exporter.get_finished_spans()
    assert dict(told.attributes or {}) == {
        "messaging.batch.message_count": 3,
        "webhook_inbox.outcome": "duplicate",
    }


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: event.name)
def test_a_log_record_carries_its_events_name(event: LogEvent, caplog: pytest.LogCaptureFixture) -> None:
    """A filter needs no text: each place is an attribute; and no value is ever read as a format."""
    assert "%s" not in event.text, "a place has a name"
    assert not set(event.places) & {*logging.makeLogRecord({}).__dict__, "event", "message", "asctime"}
    values = ['"100%s"'] * len(event.places)
    with caplog.at_level(logging.DEBUG, logger="webhook_inbox"):
        event.log(*values)
    [record] = caplog.records
    assert (record.name, record.levelno, record.__dict__["event"]) == (
        "webhook_inbox",
        event.level,
        event.name,
    )
    assert record.getMessage() == PLACE.sub('"100%s"', event.text)
    raw = {name: "100%s" if name in {"event_id", "event_type"} else '"100%s"' for name in event.places}
    assert {name: record.__dict__[name] for name in raw} == raw


def test_only_registered_events_are_logged() -> None:
    """No room that serves deliveries writes a log line past the registry."""
    rooms = ("http", "protocol", "runtime", "destinations", "drivers", "sources", "sql", "model")
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
