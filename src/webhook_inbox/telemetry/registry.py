"""
Name every metric once; count with it; write the reference from it.

Labels are bounded whatever strangers send: ``endpoint`` is a name that the user gave, or ``(unknown)``, which no
endpoint can be called; ``outcome`` is one of ``Outcome``; ``reason`` is a code of this package or of a source. Never
an event id. Past ``LABELS_MAX`` different values (endpoints resolved per tenant, a source that invents reasons) the
rest is counted together as ``(other)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome

UNKNOWN_ENDPOINT = "(unknown)"
OTHER = "(other)"
LABELS_MAX = 1_000
Child = TypeVar("Child", Counter, Histogram)


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
FAILURES = Metric(
    name="webhook_inbox_failures_total",
    kind="counter",
    labels=("endpoint", "reason"),
    meaning="Deliveries that were answered 5xx, by reason code; the provider is asked to send them again.",
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

METRICS = (BODY_BYTES, DELIVERIES, FAILURES, RECEIVE_SECONDS, REJECTIONS, REQUESTS_IN_FLIGHT)


class Metrics:
    """
    Count what one inbox does, in a registry of its own.

    Several processes count apart; Prometheus adds them up where it scrapes each.

    Attributes:
        registry: For a user's own exporter.
        in_flight: Requests that have begun and are not answered; the receiver adds and discards them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._deliveries = _Children(self._counter(DELIVERIES))
        self._rejections = _Children(self._counter(REJECTIONS))
        self._failures = _Children(self._counter(FAILURES))
        self._seconds = _Children(self._histogram(RECEIVE_SECONDS))
        self._body_bytes = _Children(self._counter(BODY_BYTES))
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
        self._deliveries.of(endpoint, receipt.outcome).inc()
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

    def expose(self) -> tuple[bytes, str]:
        """Give every metric in Prometheus' text format, and the content type of that."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.meaning, metric.labels, registry=self.registry)

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
