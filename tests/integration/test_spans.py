"""What OpenTelemetry is told of one event's way: receive, process, send, each linked to what caused it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from tests.fixtures.queue import Queue, body_of, signed
from tests.fixtures.relays import Memory, drained
from tests.fixtures.spans import Spans, identity, links, traceparent
from webhook_inbox import NotYet, Tx
from webhook_inbox.destinations import Failed
from webhook_inbox.telemetry.spans import SPANS
from webhook_inbox.testing.signing import sign_stripe

SENDERS = (0xAF7651916CD43DD8448EB211C80319C0, 0xB7AD6B7169203331)
TRACEPARENT = f"00-{SENDERS[0]:032x}-{SENDERS[1]:016x}-01"
FORMS = {form.operation: form for form in SPANS}


def traced(body: bytes) -> list[tuple[str, str]]:
    """The headers of a sender that is traced itself."""
    return [*signed(body), ("traceparent", TRACEPARENT), ("tracestate", "vendor=1")]


async def way_of(box: Queue, sync: bool) -> Memory:
    """Deliver one event, have its handler emit, relay that; the destination."""
    mail = Memory()
    box.inbox.destination("mail", mail)

    async def book(tx: Tx[psycopg.AsyncConnection[Any]], event: Any) -> None:
        await tx.emit("InvoiceBooked", {"id": event.id})

    def book_on_a_thread(tx: Tx[psycopg.Connection[Any]], event: Any) -> None:
        tx.emit("InvoiceBooked", {"id": event.id})

    box.billing.on("invoice.paid")(book_on_a_thread if sync else book)
    body = body_of("evt_1")
    await box.inbox.receive("billing", headers=traced(body), body=body)
    await box.drain()
    assert await drained(box.inbox) == {"sent": 1}
    await box.close()
    return mail


@pytest.mark.parametrize("sync", [False, True], ids=["loop", "thread"])
@pytest.mark.parametrize("mode", ["queued", "hybrid", "inline"])
def test_each_span_is_linked_to_what_caused_it(database: str, spans: Spans, mode: str, sync: bool) -> None:
    """Sender, delivery, run and send are one chain of links, across the queue and the outbox, in every mode."""

    async def story() -> Memory:
        return await way_of(Queue(database, endpoint={"mode": mode}), sync)

    mail = asyncio.run(story())
    receive, process, send = map(spans.one, ("receive billing", "process billing", "send mail"))
    assert len(spans.all()) == 3
    assert links(receive) == {SENDERS}
    assert links(process) == {identity(receive)}
    assert links(send) == {identity(process)}
    assert [span.kind for span in (receive, process, send)] == [
        SpanKind.CONSUMER,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
    ]
    if mode == "inline":
        assert process.parent.span_id == receive.context.span_id
    assert mail.sent[0].headers["traceparent"] == traceparent(process)
    assert receive.attributes["messaging.message.id"] == process.attributes["messaging.message.id"] == "evt_1"
    assert send.attributes["messaging.message.id"] == mail.ids[0]


def test_spans_say_what_the_registry_names_and_no_more(database: str, spans: Spans) -> None:
    """Names, kinds and attributes are those of ``SPANS``; and each attribute there is has been seen."""
    seen: dict[str, set[str]] = {}

    async def story() -> None:
        answers = iter([[Failed("no")], [Failed("no"), Failed("no")]])

        async def refuses(messages: Any) -> Any:
            return next(answers)

        box = Queue(database, endpoint={"mode": "inline"}, connections_max=3)
        box.inbox.destination("mail", Memory(refuses))

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.emit("Booked", {})
            if event.id != "evt_1":
                await tx.emit("Booked", {})

        @box.billing.on("invoice.bad")
        async def fail(tx: Any, event: Any) -> None:
            raise ValueError(event.body)

        queued = box.endpoint("sets", batch_events_max=10)

        @queued.on_batch("invoice.paid")
        async def book_all(tx: Any, events: Any) -> None:
            await tx.conn.execute("SELECT 1")

        assert (await box.receive("evt_1"))[0].status == 200
        await drained(box.inbox)
        assert (await box.receive("evt_2"))[0].status == 200
        await drained(box.inbox)
        assert (await box.deliver(body_of("evt_3", "invoice.bad"))).status == 500
        assert (await box.inbox.receive("billing", headers=(), body=b"{}")).status == 400
        await box.receive("evt_4", "evt_5", to="sets")
        await box.drain()
        await box.close()

    asyncio.run(story())
    for span in spans.all():
        operation, _, target = span.name.partition(" ")
        form = FORMS[operation]
        assert span.kind is SpanKind[form.kind.upper()]
        assert target in {"billing", "sets", "mail"}
        assert span.attributes is not None
        assert set(span.attributes) <= set(form.attributes), span.name
        assert span.attributes["messaging.destination.name"] == target
        assert not span.events, "an exception's text may quote the payload"
        assert span.status.description is None
        seen.setdefault(operation, set()).update(span.attributes)
    unseen = {op: set(form.attributes) - seen[op] for op, form in FORMS.items()}
    assert unseen == {"receive": {"messaging.batch.message_count"}, "process": set(), "send": set()}


def test_a_failure_is_told_by_its_class_and_a_refusal_is_none(database: str, spans: Spans) -> None:
    """P-QUIET: what the handler said stays with the app; a stranger's delivery fails nothing of ours."""

    async def story() -> None:
        box = Queue(database, endpoint={"mode": "inline"})

        @box.billing.on("invoice.paid")
        async def fail(tx: Any, event: Any) -> None:
            if event.id == "evt_wait":
                raise NotYet("no such order yet")
            raise ValueError(event.body)

        await box.receive("evt_bad")
        await box.receive("evt_wait")
        body = body_of("evt_3")
        await box.inbox.receive("billing", headers=sign_stripe(body, "whsec_fake_other", 1), body=body)
        await box.close()

    asyncio.run(story())
    failed, waits = [span for span in spans.all() if span.name == "process billing"]
    assert failed.attributes is not None
    assert waits.attributes is not None
    assert (failed.attributes["error.type"], failed.status.status_code) == (
        "builtins.ValueError",
        StatusCode.ERROR,
    )
    assert ("error.type" in waits.attributes, waits.status.status_code) == (False, StatusCode.UNSET)
    received = [span for span in spans.all() if span.name == "receive billing"]
    told = [
        (span.attributes["webhook_inbox.outcome"], span.attributes["error.type"], span.status.status_code)
        for span in received
        if span.attributes is not None
    ]
    assert [code for _, _, code in told] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert [outcome for outcome, _, _ in told] == ["failed", "unavailable", "rejected"]


def test_a_set_is_linked_to_the_delivery_of_each_of_its_events(database: str, spans: Spans) -> None:
    """One run, as many links as events."""

    async def story() -> None:
        box = Queue(database, connections_max=3, batch_events_max=10)

        @box.billing.on_batch("invoice.paid")
        async def book(tx: Any, events: Any) -> None:
            await tx.conn.execute("SELECT 1")

        await box.receive("evt_1", "evt_2", "evt_3")
        await box.drain()
        await box.close()

    asyncio.run(story())
    process = spans.one("process billing")
    deliveries = [span for span in spans.all() if span.name == "receive billing"]
    assert links(process) == {identity(span) for span in deliveries}
    assert process.attributes["messaging.batch.message_count"] == 3


def test_a_message_of_ones_own_transaction_carries_ones_own_span(database: str, spans: Spans) -> None:
    """``inbox.emit`` continues the trace of whoever calls it."""
    box = Queue(database)
    with (
        spans.provider.get_tracer("app").start_as_current_span("checkout") as span,
        psycopg.connect(database) as conn,
    ):
        box.inbox.emit(conn, "OrderPlaced", {})
    (row,) = box.rows("SELECT headers FROM {s}.outbox")
    assert row["headers"] == {"traceparent": traceparent(span)}


def test_without_a_tracer_provider_the_senders_trace_travels_on(database: str) -> None:
    """An app that sets up no OpenTelemetry hands the context on as it came."""

    async def story() -> Memory:
        return await way_of(Queue(database), sync=False)

    mail = asyncio.run(story())
    assert mail.sent[0].headers["traceparent"] == TRACEPARENT
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT headers::text FROM webhooks.bodies").fetchone()
    assert row is not None
    assert ["traceparent", TRACEPARENT] in json.loads(row[0])


class Broken(SpanProcessor):
    """An exporter's part that fails, as the SDK lets it: what it raises goes through to whoever has the span."""

    def __init__(self, at: str) -> None:
        self.at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Fail here, if so told."""
        if self.at == "start":
            raise ValueError("broken at the start")

    def on_end(self, span: Any) -> None:
        """Fail here, if so told."""
        if self.at == "end":
            raise ValueError("broken at the end")


@pytest.mark.parametrize(
    ("mode", "sync"),
    [("queued", False), ("queued", True), ("hybrid", False), ("inline", True), ("inline", False)],
)
def test_a_tracer_that_fails_makes_nothing_else_fail(
    database: str, spans: Spans, caplog: pytest.LogCaptureFixture, mode: str, sync: bool
) -> None:
    """P-FLOW: the delivery is acknowledged, the handler has run once, the message has gone once; the log says so."""
    spans.provider.add_span_processor(Broken("start" if sync else "end"))

    async def story() -> Memory:
        return await way_of(Queue(database, endpoint={"mode": mode}), sync)

    mail = asyncio.run(story())
    assert len(mail.sent) == 1
    with psycopg.connect(database) as conn:
        rows = conn.execute("SELECT state, attempts FROM webhooks.inbox").fetchall()
    assert [state for state, _ in rows] == ["processed"]
    told = [record for record in caplog.records if getattr(record, "event", "") == "span_lost"]
    assert len(told) == 3
    assert "broken" not in caplog.text
