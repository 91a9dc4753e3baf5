"""
Name every span once: its kind, its attributes, and what it covers.

    receive billing  ◄──link── process billing  ◄──link── send mail
    (the delivery)             (one run of a handler)     (a message that it emitted)

Each is linked to what caused it, and not its child: hours, retries and other processes may lie between.

Source: OpenTelemetry semantic conventions for messaging spans, "Span name", "Span kind", "Trace structure".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import Event
from webhook_inbox.model.message import Failed, Message, Verdict
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry.tracing import (
    ERROR_TYPE,
    OFF,
    Attribute,
    Kind,
    Opened,
    current_span,
    fail,
    harmless,
    tracer,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_SYSTEM = "messaging.system"
_OPERATION = "messaging.operation.name"
_OPERATION_TYPE = "messaging.operation.type"
_DESTINATION = "messaging.destination.name"
_MESSAGE_ID = "messaging.message.id"
_MESSAGE_COUNT = "messaging.batch.message_count"
_BODY_BYTES = "messaging.message.body.size"
_ATTEMPT = "webhook_inbox.attempt"
_EVENT_TYPE = "webhook_inbox.event_type"
_HANDLER = "webhook_inbox.handler"
_OUTCOME = "webhook_inbox.outcome"
_EVERY_SPAN = (_SYSTEM, _OPERATION, _OPERATION_TYPE, _DESTINATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanForm:
    """
    Describe one kind of span.

    Attributes:
        operation: What it is called by; its name is this and the endpoint's or destination's.
        kind: OpenTelemetry's.
        attributes: Names of all that it may have.
        meaning: What it covers, and what it is linked to.
    """

    operation: str
    kind: Kind
    attributes: tuple[str, ...]
    meaning: str


RECEIVE = SpanForm(
    operation="receive",
    kind="consumer",
    attributes=(*_EVERY_SPAN, _BODY_BYTES, _MESSAGE_ID, _MESSAGE_COUNT, _OUTCOME, ERROR_TYPE),
    meaning=(
        "A delivery, its body complete, until its answer is known; a child of the web framework's span. "
        "Linked to the sender's span. ``error.type`` is the reason code of a refusal or a failure."
    ),
)
PROCESS = SpanForm(
    operation="process",
    kind="consumer",
    attributes=(*_EVERY_SPAN, _MESSAGE_ID, _MESSAGE_COUNT, _EVENT_TYPE, _ATTEMPT, _HANDLER, ERROR_TYPE),
    meaning=(
        "One run of one handler, without the commit; the current span within it. Linked to the span that received the "
        "event; of a set-based handler, to each. ``error.type`` is the class of what it raised."
    ),
)
SEND = SpanForm(
    operation="send",
    kind="client",
    attributes=(*_EVERY_SPAN, _MESSAGE_ID, _MESSAGE_COUNT, _EVENT_TYPE, _ATTEMPT, ERROR_TYPE),
    meaning=(
        "A relay's sending of one message, or of several at once. Linked to the span in which each was emitted, whose "
        "context goes out with it. ``error.type`` is ``failed``."
    ),
)

SPANS = (PROCESS, RECEIVE, SEND)


def receiving(endpoint: str, delivery: Delivery) -> Opened:
    """Open the span of one delivery."""
    if (ours := tracer()) is None:
        return OFF
    facts = _facts(RECEIVE, endpoint) | {_BODY_BYTES: len(delivery.body)}
    return current_span(ours, f"{RECEIVE.operation} {endpoint}", RECEIVE.kind, facts, [delivery.headers])


def received(span: Span | None, receipt: Receipt) -> None:
    """Say what became of the delivery of *span*; a refusal is no failure of ours."""
    if span is None:
        return
    with harmless():
        span.set_attribute(_OUTCOME, receipt.outcome)
        if receipt.results:
            span.set_attributes(_which([result.event_id for result in receipt.results]))
        if receipt.outcome in {Outcome.FAILED, Outcome.UNAVAILABLE}:
            fail(span, receipt.reason)
        elif receipt.outcome is Outcome.REJECTED:
            span.set_attribute(ERROR_TYPE, receipt.reason)


def processing(events: Collection[tuple[Event, int]], handler: str) -> Opened:
    """Open the span of one run of *handler*, for *events* of one endpoint with their rows; at least one."""
    if (ours := tracer()) is None:
        return OFF
    about = [event for event, _ in events]
    facts = _facts(PROCESS, about[0].endpoint) | {_HANDLER: handler, _EVENT_TYPE: about[0].type}
    facts |= _which([event.id for event in about])
    if len(about) == 1:
        facts[_ATTEMPT] = about[0].attempt
    name = f"{PROCESS.operation} {about[0].endpoint}"
    return current_span(ours, name, PROCESS.kind, facts, [event.headers for event in about])


def sending(messages: Sequence[Message]) -> Opened:
    """Open the span of sending *messages* of one destination; at least one."""
    if (ours := tracer()) is None:
        return OFF
    first = messages[0]
    facts = _facts(SEND, first.destination) | _which([str(message.id) for message in messages])
    if len(messages) == 1:
        facts |= {_EVENT_TYPE: first.event_type, _ATTEMPT: first.attempt}
    name = f"{SEND.operation} {first.destination}"
    return current_span(ours, name, SEND.kind, facts, [message.headers for message in messages])


def sent(span: Span | None, verdicts: Sequence[Verdict]) -> None:
    """Say what came of the sending of *span*: failed where one of its messages did."""
    if span is not None and any(isinstance(verdict, Failed) for verdict in verdicts):
        fail(span, "failed")


def _facts(form: SpanForm, destination: str) -> dict[str, Attribute]:
    operation = {_OPERATION: form.operation, _OPERATION_TYPE: form.operation}
    return {_SYSTEM: "webhook_inbox", **operation, _DESTINATION: destination}


def _which(ids: Sequence[str]) -> dict[str, Attribute]:
    return {_MESSAGE_ID: ids[0]} if len(ids) == 1 else {_MESSAGE_COUNT: len(ids)}
