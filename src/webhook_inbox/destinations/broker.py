"""
Say what the brokers have in common: what travels beside a payload, where a message goes, what of an error may be shown.

The payload is the message's own JSON, unwrapped; everything else is a header. So a consumer needs no library of ours,
and what it looks for duplicates by is where it looks first: ``message-id``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC
from importlib.util import find_spec
from typing import TypeAlias, TypeVar

from webhook_inbox.errors import ConfigurationError, InboxError
from webhook_inbox.model.message import Failed, Message

#: A subject, topic, stream or routing key: one for all messages, or a function that gives each message its own.
Naming: TypeAlias = str | Callable[[Message], str]
CONTENT_TYPE = "application/json"
BATCH_MESSAGES_MAX = 200
_CLOSE_SECONDS_MAX = 0.5
# A scheme, user and password; then what may be shown: host, port and path; then a query. Behind a "/", "?" or "#" an
# "@" may end a password that is not escaped as well as stand in a query.
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:[^/?#]*@)?"
    r"(?P<place>(?:[\w.-]*|\[[0-9a-f:.]+\])(?::[0-9]+)?(?:/[^@?#]*)?)(?:[?#][^@]*)?",
    re.IGNORECASE,
)
T = TypeVar("T")


def headers_of(message: Message) -> dict[str, str]:
    """Give what travels beside the payload, by lower-case name: ours, which nobody else says, and the message's own."""
    ours = {
        "message-id": str(message.id),
        "event-type": message.event_type,
        "aggregate-type": message.aggregate_type,
        "aggregate-id": message.aggregate_id,
        "created-at": message.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "content-type": CONTENT_TYPE,
    }
    return {name: value for name, value in {**message.headers, **ours}.items() if value}


def name_for(message: Message, naming: Naming) -> str:
    """
    Give the subject, topic, stream or routing key of *message*.

    Raises:
        TypeError: The user's function gives no text, on which a client would fail the whole batch.
        Exception: Whatever else it raises.
    """
    name: object = naming if isinstance(naming, str) else naming(message)
    if not isinstance(name, str):
        raise TypeError(f"a name is text, not {type(name).__name__}")
    return name


def shown_name(naming: Naming) -> str:
    """Give the name that is the same for all messages, or say that there is none."""
    return naming if isinstance(naming, str) else "(a name for each message)"


def shown_url(url: str) -> str:
    """Give *url* without what may be a secret: user, password, token and query; none of one that could be misread."""
    found = _URL.fullmatch(url)
    return f"{found['scheme'] or ''}{found['place']}".rstrip("/") if found else "(a URL that cannot be read)"


def require(module: str, *, package: str, extra: str) -> None:
    """
    See that a client is there, before any message waits for it.

    Raises:
        ConfigurationError: It is not; the text says which extra has it.
    """
    if find_spec(module) is None:
        raise ConfigurationError(
            f"the destination needs {package}: pip install 'webhook-inbox[{extra}]', where the relay runs"
        )


async def reached(connected: Callable[[], Awaitable[T]], seconds_max: float) -> T | Failed:
    """
    Give the connection, or make one, before anything is sent.

    Returns:
        What *connected* gives, or why there is none: nothing was sent, so it costs no message an attempt.
    """
    try:
        async with asyncio.timeout(seconds_max):
            return await connected()
    except Exception as error:  # noqa: BLE001 - whatever a client raises, it is not there
        return Failed(f"no connection: {why(error)}", stop=True)


def why(error: BaseException) -> str:
    """Give what may be shown of *error*: our own words; of a client's, its kind alone, as its text may quote a URL."""
    if isinstance(error, InboxError):
        return str(error)
    beneath = error.__cause__ or error.__context__
    return type(beneath if isinstance(beneath, OSError) else error).__name__


def too_large(message: Message, message_bytes_max: int) -> Failed | None:
    """Say of a payload above *message_bytes_max* that it will never be sent; of another one nothing."""
    if len(message.payload) <= message_bytes_max:
        return None
    return Failed(f"it is larger than message_bytes_max, {message_bytes_max} bytes", permanent=True)


async def let_go(closing: Awaitable[object]) -> None:
    """Wait for *closing* a moment; whatever comes of it, what it closes is given up."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS_MAX):
            await closing
