"""
Name every metric once; count with it; write the reference from it.

Labels are bounded whatever strangers send: ``endpoint`` is a name that the user gave, or ``(unknown)``, which no
endpoint can be called; ``outcome`` is one of ``Outcome``; ``reason`` is a code of this package or of a source. Never
an event id. Past ``LABELS_MAX`` different values (endpoints resolved per tenant, a source that invents reasons) the
rest is counted together as ``(other)``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from webhook_inbox.model.message import SendState
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.reconciled import Completeness, Reconciled
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.telemetry.tally import OTHER, Tally

UNKNOWN_ENDPOINT = "(unknown)"
LABELS_MAX = 1_000
Child = TypeVar("Child", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """
    Describe one metric.

    Attributes:
        name: As Prometheus shows it; a counter's ends in ``_total``.
        kind: Prometheus' type.
        labels: Names of its labels.
        meaning: What one unit of it is.
        buckets: Upper bounds of a histogram, in the unit of its name.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


DELIVERIES = Metric(
    name="webhook_inbox_deliveries_total",
    kind="counter",
    labels=("endpoint", "outcome"),
    meaning="Requests that were answered, by what became of them.",
)
REJECTIONS = Metric(
    name="webhook_inbox_rejections_total",
    kind="counter",
    labels=("endpoint", "reason"),
    meaning="Requests that were refused with 4xx, by reason code; nothing of them is stored.",
)
EVENTS = Metric(
    name="webhook_inbox_events",
    kind="gauge",
    labels=("endpoint", "state"),
    meaning=(
        "Events in the database that wait for their effect (`waiting`, `leased`, `retrying`) or for a person (`dead`, "
        "`quarantined`), as a worker saw it of late."
    ),
)
OLDEST_EVENT_SECONDS = Metric(
    name="webhook_inbox_oldest_event_seconds",
    kind="gauge",
    labels=("endpoint",),
    meaning=(
        "Seconds since the oldest event that waits for its effect was received, as a worker saw it of late; 0: none "
        "does."
    ),
)
RUNS = Metric(
    name="webhook_inbox_runs_total",
    kind="counter",
    labels=("endpoint", "outcome"),
    meaning=(
        "Events that a worker ran, by what came of it; `lease_lost`: another worker had taken the event over, and "
        "nothing was applied; `not_run`: it was given back."
    ),
)
EFFECT_SECONDS = Metric(
    name="webhook_inbox_effect_seconds",
    kind="histogram",
    labels=("endpoint",),
    meaning=(
        "Seconds from when the database recorded an event to its effect, committed by a worker; as far as this host's "
        "clock and the server's agree."
    ),
    buckets=(
        0.01,
        0.025,
        0.05,
        0.1,
        0.25,
        0.5,
        1.0,
        2.5,
        5.0,
        15.0,
        60.0,
        300.0,
        900.0,
        3600.0,
        14400.0,
        86400.0,
    ),
)
FAILURES = Metric(
    name="webhook_inbox_failures_total",
    kind="counter",
    labels=("endpoint", "reason"),
    meaning="Deliveries that were answered 5xx, by reason code; the provider is asked to send them again.",
)
CONFLICTS = Metric(
    name="webhook_inbox_conflicts_total",
    kind="counter",
    labels=("endpoint",),
    meaning="Events that came again with another body under an id that the signature does not cover; it had no effect.",
)
RECEIVE_SECONDS = Metric(
    name="webhook_inbox_receive_seconds",
    kind="histogram",
    labels=("endpoint",),
    meaning="Seconds from a delivery, its body complete, to its answer: verification, transaction and inline handler.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
BODY_BYTES = Metric(
    name="webhook_inbox_body_bytes_total",
    kind="counter",
    labels=("endpoint",),
    meaning="Bytes of request bodies that were read, those of refused requests included.",
)
REQUESTS_IN_FLIGHT = Metric(
    name="webhook_inbox_requests_in_flight",
    kind="gauge",
    meaning="HTTP requests that have begun and are not answered yet.",
)
SENDS = Metric(
    name="webhook_inbox_sends_total",
    kind="counter",
    labels=("destination", "outcome"),
    meaning="Messages that a relay sent or tried to, by what became of them at that destination.",
)
BREAKER_OPEN = Metric(
    name="webhook_inbox_breaker_open",
    kind="gauge",
    labels=("destination",),
    meaning="1 while a relay leaves a destination alone or tries one message only, since it took nothing; else 0.",
)
OUTBOX_LAG_SECONDS = Metric(
    name="webhook_inbox_outbox_lag_seconds",
    kind="gauge",
    labels=("destination",),
    meaning="Seconds for which a destination's oldest due message has been due, as a relay saw it of late; 0: none is.",
)
OUTBOX_STUCK_MESSAGES = Metric(
    name="webhook_inbox_outbox_stuck_messages",
    kind="gauge",
    labels=("state",),
    meaning="Messages in the whole outbox that nothing sends by itself, `dead` or `unrouted`, as a relay saw it.",
)
RECONCILED = Metric(
    name="webhook_inbox_reconciled_total",
    kind="counter",
    labels=("endpoint", "result"),
    meaning=(
        "Events that a provider was asked for: `present`, `recovered` (they had never arrived), `failed`, "
        "`out_of_reach`."
    ),
)
RECONCILED_TIMESTAMP_SECONDS = Metric(
    name="webhook_inbox_reconciled_timestamp_seconds",
    kind="gauge",
    labels=("endpoint",),
    meaning=(
        "Unix time until which all that the provider lists is here, as a worker saw it in the database within the last "
        "minute, whichever process has asked; 0: it never was."
    ),
)

METRICS = (
    BODY_BYTES,
    BREAKER_OPEN,
    CONFLICTS,
    DELIVERIES,
    EFFECT_SECONDS,
    EVENTS,
    FAILURES,
    OLDEST_EVENT_SECONDS,
    OUTBOX_LAG_SECONDS,
    OUTBOX_STUCK_MESSAGES,
    RECEIVE_SECONDS,
    RECONCILED,
    RECONCILED_TIMESTAMP_SECONDS,
    REJECTIONS,
    REQUESTS_IN_FLIGHT,
    RUNS,
    SENDS,
)


class Metrics:
    """
    Count what one inbox does, in a registry of its own.

    Several processes count apart; Prometheus adds them up where it scrapes each.

    Attributes:
        registry: For a user's own exporter.
        in_flight: Requests that have begun and are not answered; the receiver adds and discards them.
        tally: What leaves no row, for those who keep it.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.tally = Tally()
        self._deliveries = _Children(self._counter(DELIVERIES))
        self._rejections = _Children(self._counter(REJECTIONS))
        self._failures = _Children(self._counter(FAILURES))
        self._conflicts = _Children(self._counter(CONFLICTS))
        self._seconds = _Children(self._histogram(RECEIVE_SECONDS))
        self._body_bytes = _Children(self._counter(BODY_BYTES))
        self._sends = _Children(self._counter(SENDS))
        self._runs = _Children(self._counter(RUNS))
        self._effect_seconds = _Children(self._histogram(EFFECT_SECONDS))
        self._breaker_open = _Children(self._gauge(BREAKER_OPEN))
        self._events = _Children(self._gauge(EVENTS))
        self._oldest = _Children(self._gauge(OLDEST_EVENT_SECONDS))
        self._lag = _Children(self._gauge(OUTBOX_LAG_SECONDS))
        self._stuck = _Children(self._gauge(OUTBOX_STUCK_MESSAGES))
        self._reconciled = _Children(self._counter(RECONCILED))
        self._reconciled_until = _Children(self._gauge(RECONCILED_TIMESTAMP_SECONDS))
        self.in_flight: set[object] = set()
        in_flight = Gauge(REQUESTS_IN_FLIGHT.name, REQUESTS_IN_FLIGHT.meaning, registry=self.registry)
        in_flight.set_function(lambda: float(len(self.in_flight)))

    def count(self, endpoint: str, receipt: Receipt) -> None:
        """
        Count one answer.

        Args:
            endpoint: The endpoint's name, or ``UNKNOWN_ENDPOINT``; never text that a stranger chose.
            receipt: The answer.
        """
        self.tally.add(endpoint, receipt)
        self._deliveries.of(endpoint, receipt.outcome).inc()
        if conflicts := sum(result.conflicting for result in receipt.results):
            self._conflicts.of(endpoint).inc(conflicts)
        match receipt.outcome:
            case Outcome.REJECTED:
                self._rejections.of(endpoint, receipt.reason).inc()
            case Outcome.FAILED | Outcome.UNAVAILABLE:
                self._failures.of(endpoint, receipt.reason).inc()
            case _:
                pass

    def observe(self, endpoint: str, receipt: Receipt, seconds: float) -> None:
        """Count one answer to a delivery whose body was complete, and the *seconds* from then on."""
        self.count(endpoint, receipt)
        self._seconds.of(endpoint).observe(seconds)

    def read(self, endpoint: str, body_bytes: int) -> None:
        """Count the bytes of one request's body that were read."""
        self._body_bytes.of(endpoint).inc(body_bytes)

    def ran(self, endpoint: str, outcome: str, received_at: datetime | None) -> None:
        """Count one run of a worker's; where it was the effect, note how long after *received_at* that came."""
        self._runs.of(endpoint, outcome).inc()
        if outcome == State.PROCESSED and received_at is not None:
            self._effect_seconds.of(endpoint).observe(max(0.0, time.time() - received_at.timestamp()))

    def breaker(self, destination: str, *, is_open: bool) -> None:
        """Note whether *destination* is left alone."""
        self._breaker_open.of(destination).set(is_open)

    def sent(self, destination: str, outcome: SendState) -> None:
        """Count what one send came to."""
        self._sends.of(destination, outcome).inc()

    def unsettled(self, endpoint: str, counts: Mapping[State, int], oldest_seconds: float | None) -> None:
        """Note how many events of *endpoint* are not settled, by state, and for how long the oldest has waited."""
        for state, number in counts.items():
            self._events.of(endpoint, state).set(number)
        self._oldest.of(endpoint).set(oldest_seconds or 0.0)

    def lag(self, destination: str, seconds: float) -> None:
        """Note for how long the oldest due message of *destination* has been due."""
        self._lag.of(destination).set(seconds)

    def stuck(self, state: SendState, number: int) -> None:
        """Note how many messages nothing sends by itself."""
        self._stuck.of(state).set(number)

    def reconciled(self, done: Reconciled | Completeness) -> None:
        """Count what came of asking a provider, or note until when everything is here."""
        if isinstance(done, Completeness):
            until = 0.0 if done.seconds is None else time.time() - done.seconds
            self._reconciled_until.of(done.endpoint).set(until)
            return
        tally = asdict(done.found)
        del tally["seen"]  # the sum of the others
        for result, number in tally.items():
            self._reconciled.of(done.endpoint, result).inc(number)

    def expose(self) -> tuple[bytes, str]:
        """Give every metric in Prometheus' text format, and the content type of that."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.meaning, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.meaning, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(
            metric.name, metric.meaning, metric.labels, registry=self.registry, buckets=metric.buckets
        )


class _Children(Generic[Child]):
    """Keep a metric's labelled children at hand, and their number bounded (P-CALM)."""

    def __init__(self, parent: Child) -> None:
        self._parent: Child = parent
        self._children: dict[tuple[str, ...], Child] = {}

    def of(self, *labels: str) -> Child:
        child = self._children.get(labels)
        if child is None:
            if len(self._children) >= LABELS_MAX:
                labels = (OTHER,) * len(labels)
            child = self._children[labels] = self._parent.labels(*labels)
        return child
