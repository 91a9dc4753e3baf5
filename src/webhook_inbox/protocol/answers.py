"""Put what became of a delivery into an HTTP answer; the table is design 4.2's, and every receipt is made here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace

from webhook_inbox.errors import (
    HandlerError,
    HandlerNotYetError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    StoreError,
    TransactionEndedError,
    VerificationKeyError,
)
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.sources.source import Answer, Rejected, Source

RETRY_AFTER_SECONDS = 5
_SUCCESS = 200
_REFUSED_FROM = 400
_SHOWN_NAME = re.compile(r"[A-Za-z0-9._~-]{1,100}")
# What a delivery of several events came to: that of the event that is least settled.
_LEAST_SETTLED_FIRST = (
    Outcome.UNAVAILABLE,
    Outcome.QUEUED,
    Outcome.QUARANTINED,
    Outcome.DEAD,
    Outcome.PROCESSED,
    Outcome.IGNORED,
    Outcome.DUPLICATE,
)


def accepted(results: Sequence[EventResult]) -> Receipt:
    """
    Acknowledge a delivery whose events are committed; 503 where one of them is not stored because a rival holds its
    key.
    """
    outcome = min((result.outcome for result in results), key=_LEAST_SETTLED_FIRST.index)
    body = (
        _shown(results[0])
        if len(results) == 1
        else {"outcome": outcome, "results": [_shown(result) for result in results]}
    )
    if outcome is Outcome.UNAVAILABLE:
        return _receipt(503, outcome, body, results, reason="key_busy", retry_after=RETRY_AFTER_SECONDS)
    return _receipt(200, outcome, body, results)


def handshake(answer: Answer) -> Receipt:
    """Send what a handshake wants, or refuse it."""
    refused = answer.status >= _REFUSED_FROM
    return Receipt(
        status=answer.status,
        outcome=Outcome.REJECTED if refused else Outcome.HANDSHAKE,
        headers=answer.headers,
        body=answer.body,
        reason="handshake_refused" if refused else "",
    )


def suited(receipt: Receipt, source: Source) -> Receipt:
    """Give *receipt* the status and the emptiness that the provider's protocol asks for; it means the same."""
    if receipt.results and receipt.status == _SUCCESS != source.success_status:
        receipt = replace(receipt, status=source.success_status)
    if not source.empty_answers or receipt.outcome is Outcome.HANDSHAKE:
        return receipt
    headers = tuple(pair for pair in receipt.headers if pair[0] != "content-type")
    return replace(receipt, headers=headers, body=b"")


def rejected(verdict: Rejected) -> Receipt:
    """Refuse a delivery that is not believed."""
    return refused(verdict.status, verdict.reason, verdict.message)


def refused(status: int, reason: str, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Receipt:
    """Refuse a request with a constant sentence; *reason* is the stable code."""
    body = {"outcome": Outcome.REJECTED, "reason": reason, "error": message}
    return _receipt(status, Outcome.REJECTED, body, reason=reason, headers=headers)


def unknown_endpoint(name: str = "") -> Receipt:
    """
    Refuse a path that leads nowhere, without telling which ones lead somewhere; *name* is shown only where it
    could be one.
    """
    named = f" {name!r}" if _SHOWN_NAME.fullmatch(name) else ""
    return refused(
        404, "unknown_endpoint", f"no endpoint{named} here; deliveries are posted to /{{endpoint}}"
    )


def wrong_method(handshakes: frozenset[str]) -> Receipt:
    """Refuse a method; *handshakes* are those that the source takes beside POST."""
    allow = ", ".join(["POST", *sorted(handshakes)])
    return refused(405, "method", f"deliveries come by POST; allowed here: {allow}", (("allow", allow),))


def body_too_large(bytes_max: int) -> Receipt:
    """Refuse a body for its size."""
    return refused(413, "body_too_large", f"the body is over {bytes_max} bytes (setting body_bytes_max)")


def unavailable(reason: str, message: str, *, retry_after: float = RETRY_AFTER_SECONDS) -> Receipt:
    """Ask the sender to come again: nothing is acknowledged (P-ACK)."""
    body = {"outcome": Outcome.UNAVAILABLE, "reason": reason, "error": message}
    return _receipt(503, Outcome.UNAVAILABLE, body, reason=reason, retry_after=retry_after)


def failed(error: InboxError) -> Receipt:
    """Answer what raised out of a plan; the texts are constant, details are in the log (P-QUIET, P-CALM)."""
    match error:
        case HandlerNotYetError():
            return unavailable(
                error.code, "not possible yet; send it again", retry_after=error.retry_in_seconds
            )
        case HandlerTimeoutError():
            return _handler_failed(error, "the handler ran out of time; nothing is applied, send it again")
        case TransactionEndedError():
            return _handler_failed(error, "the handler ended its transaction; send it again")
        case HandlerError():
            return _handler_failed(error, "the handler failed; nothing is applied, send it again")
        case KeyBusyError():
            return unavailable(error.code, "the first copy is still in flight; send it again")
        case VerificationKeyError():
            return unavailable(error.code, "the provider's key cannot be fetched right now; send it again")
        case StoreError():
            return unavailable(error.code, "the database is not usable right now; send it again")
        case _:
            return unavailable(error.code, "this endpoint is not set up; send it again")


def _handler_failed(error: HandlerError, message: str) -> Receipt:
    body = {"outcome": Outcome.FAILED, "reason": error.code, "error": message}
    return _receipt(500, Outcome.FAILED, body, reason=error.code)


def _shown(result: EventResult) -> dict[str, object]:
    shown: dict[str, object] = {"outcome": result.outcome, "event_id": result.event_id, "state": result.state}
    if result.unhandled_type:
        shown["unhandled_type"] = result.unhandled_type
    if result.first_received_at is not None:
        shown["first_received_at"] = result.first_received_at.isoformat()
    return shown


def _receipt(
    status: int,
    outcome: Outcome,
    body: object,
    results: Sequence[EventResult] = (),
    *,
    reason: str = "",
    retry_after: float | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> Receipt:
    sent = (
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        *headers,
    )
    if retry_after is not None:
        sent += (("retry-after", str(max(1, math.ceil(retry_after)))),)
    return Receipt(
        status=status,
        outcome=outcome,
        headers=sent,
        body=json.dumps(body).encode(),
        results=tuple(results),
        reason=reason,
    )
