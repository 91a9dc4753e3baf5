"""Write a message into the outbox: checked before it is sent to the server, under an id that never changes (P-OUT)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol
from uuid import UUID, uuid4, uuid5

from webhook_inbox.errors import ArgumentError
from webhook_inbox.model.arrival import storable
from webhook_inbox.model.event import Event
from webhook_inbox.telemetry.tracing import carried

# A NUL as json.dumps writes it; an escaped backslash before "u0000" is ordinary text.
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_MESSAGE_NAMESPACE = UUID("6f1c2b0e-5c5b-4d0e-9a53-3d2f8a1f7c11")
# Every kind of destination can carry these: HTTP, AMQP, NATS, Kafka.
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,1000}")
# W3C Trace Context, version 00.
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class SyncConnection(Protocol):
    """Tell a connection that is used on a thread, for type checkers: whichever library's it is."""

    def close(self) -> None: ...  # noqa: D102 - the library's own


class AsyncConnection(Protocol):
    """... and one that is used on an event loop."""

    async def close(self) -> None: ...  # noqa: D102


def derived_id(*parts: str) -> UUID:
    """Give the id that is made of *parts*: the same each time, another for whatever differs in any of them."""
    return uuid5(_MESSAGE_NAMESPACE, json.dumps(parts))


def keyed_id(key: str | None, *, what: str) -> UUID:
    """Give the id of a message that no event causes: made of the user's *key*, else one of its own."""
    return uuid4() if key is None else derived_id("key", _key(key, what=what))


def caused_id(event: Event, handler: str, position: int | str) -> UUID:
    """Give the id of the message that *handler* sends at *position*, or under the user's key, because of *event*."""
    key = event.key
    parts = (key.provider, key.endpoint, key.account, key.environment, key.event_id, handler)
    if isinstance(position, int):
        return derived_id(*parts, str(position))
    return derived_id(*parts, "key", _key(position, what="tx.emit"))


def message_params(
    message_id: UUID,
    event_type: str,
    payload: object,
    *,
    aggregate_type: str,
    aggregate_id: object,
    to: str,
    headers: Mapping[str, str],
    inbox_id: int | None,
    what: str,
) -> dict[str, object]:
    """
    Give the parameters of ``insert_outbox``.

    Raises:
        ArgumentError: *what* was given something that cannot be stored, or that not every destination can carry.
    """
    return {
        "id": message_id,
        "aggregate_type": checked_text(aggregate_type, what=f"{what}: the aggregate type"),
        "aggregate_id": checked_text(str(aggregate_id), what=f"{what}: the aggregate id"),
        "event_type": _checked_type(event_type, what=f"{what}: the event type"),
        "payload": json_text(payload, what=f"{what}: the payload"),
        "destination": checked_text(to, what=f"{what}: the destination"),
        "headers": json.dumps(_checked_headers(headers, what=what)),
        "inbox_id": inbox_id,
    }


def current_trace() -> dict[str, str]:
    """Give the headers of the span in which a message is written, as far as every destination can carry them."""
    return {name: value for name, value in carried().items() if _HEADER_VALUE.fullmatch(value)}


def travelling(event: Event) -> dict[str, str]:
    """
    Give the headers that a message takes over from the *event* that causes it.

    The current span's trace, else the one in which it was delivered, where that is told in W3C's form; and a
    correlation id: the sender's own (``X-Correlation-Id``, ``X-Request-Id``), else the event's id.
    """
    told = event.headers
    found = current_trace()
    if not found and _TRACEPARENT.fullmatch(told.get("traceparent", "")):
        found = {"traceparent": told["traceparent"], "tracestate": told.get("tracestate", "")}
    found["correlation-id"] = told.get("x-correlation-id") or told.get("x-request-id") or event.id
    return {name: value for name, value in found.items() if _HEADER_VALUE.fullmatch(value)}


def sendable(headers: str) -> dict[str, str]:
    """Give what every destination can carry of *headers*, JSON: plain SQL may have written anything there."""
    try:
        read = json.loads(headers)
    except (ValueError, RecursionError):  # numbers longer, and nested deeper, than Python reads
        read = None
    found = read.items() if isinstance(read, dict) else ()
    return {
        name: value
        for name, value in found
        if _HEADER_NAME.fullmatch(name) and isinstance(value, str) and _HEADER_VALUE.fullmatch(value)
    }


def checked_text(value: object, *, what: str) -> str:
    """
    Give *value*, a text that PostgreSQL can store.

    Raises:
        ArgumentError: It is none.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{what} is a {type(value).__name__}, not a text")
    if value != storable(value):
        raise ArgumentError(f"{what} holds a NUL or a lone surrogate, which PostgreSQL cannot store")
    return value


def _checked_type(value: str, *, what: str) -> str:
    if value == "":
        raise ArgumentError(f"{what} is empty; others know the message by it")
    return checked_text(value, what=what)


def json_text(value: object, *, what: str) -> str:
    """
    Write *value* as JSON that jsonb accepts.

    Raises:
        ArgumentError: Says which rule it breaks; never shows the value (P-QUIET).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} holds a lone surrogate, which PostgreSQL cannot store") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{what} is not JSON: {type(error).__name__}") from None
    if _NUL_ESCAPE.search(text):
        raise ArgumentError(f"{what} holds a NUL character, which PostgreSQL cannot store")
    return text


def _key(key: str, *, what: str) -> str:
    if not isinstance(key, str) or not key:
        raise ArgumentError(f"{what}: the key is a text that is not empty")
    return key


def _checked_headers(headers: Mapping[str, str], *, what: str) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ArgumentError(f"{what}: a header's name is 1 to 100 of a-z, 0-9 and -, in lower case")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise ArgumentError(f"{what}: header {name} is no printable ASCII text of 1 to 1,000 characters")
    return dict(headers)
