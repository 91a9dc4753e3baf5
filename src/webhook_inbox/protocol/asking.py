"""
Ask a provider's API one thing: again after a while where it says so or cannot be reached, and not for ever.

    200                           the answer
    429, or 403 at a limit        wait as it says (``Retry-After``, ``X-RateLimit-Reset``), then again
    408, 5xx, no answer in time   wait, each time longer, then again
    anything else                 it stays so: say why
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TypeAlias

from webhook_inbox.model.headers import Headers
from webhook_inbox.model.instants import http_date
from webhook_inbox.protocol.flow import Ask, Flow, Pause
from webhook_inbox.sources.listing import Request, Response

ATTEMPTS_MAX = 5
PAUSE_SECONDS_MAX = 60.0
_FIRST_PAUSE_SECONDS = 0.5
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """
    Say why there is no answer.

    Attributes:
        reason: A phrase in our own words: nothing of the answer, and no key (P-QUIET).
        status: What was answered; 0: nothing.
        later: Whether the same request may well be answered later.
        wait_seconds: How long to wait, as the API says; None: it does not.
    """

    reason: str
    status: int = 0
    later: bool = True
    wait_seconds: float | None = None


Asker: TypeAlias = Callable[[Request], Response | Unanswered]


def ask_api(asker: Asker, request: Request) -> Flow[Response | Unanswered]:
    """Give the answer to *request*, whose status is 200, or why there is none after ``ATTEMPTS_MAX``."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        heard: Response | Unanswered = yield Ask(asker, request)
        heard = _judged(heard) if isinstance(heard, Response) else heard
        if isinstance(heard, Response) or not heard.later or attempt == ATTEMPTS_MAX:
            return heard
        seconds = heard.wait_seconds
        if seconds is None:
            seconds = _FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret
        if seconds > PAUSE_SECONDS_MAX:
            return heard
        yield Pause(seconds)
    raise AssertionError("unreachable")


def _judged(response: Response) -> Response | Unanswered:
    status, headers = response.status, response.headers
    if status == HTTPStatus.OK:
        return response
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status == HTTPStatus.FORBIDDEN and _limited(headers)):
        wait = _wait_seconds(headers)
        when = "" if wait is None else f", for another {wait:.0f} seconds"
        return Unanswered(reason=f"the rate limit is reached{when}", status=status, wait_seconds=wait)
    if status in _REFUSED:
        reason = f"it answers {status}: the api_key is not (or no longer) allowed to read this list"
        return Unanswered(reason=reason, status=status, later=False)
    later = status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    wait = _wait_seconds(headers) if later else None
    return Unanswered(reason=f"it answers {status}", status=status, later=later, wait_seconds=wait)


def _limited(headers: Headers) -> bool:
    return "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"


def _wait_seconds(headers: Headers) -> float | None:
    """Read how long to wait: seconds, or a time that is held against the answer's own date."""
    given = headers.get("retry-after", "")
    if given.isascii() and given.isdigit():
        return float(given[:9])
    answered_at = http_date(headers.get("date", ""))
    reset = headers.get("x-ratelimit-reset", "")
    until = http_date(given)
    if until is None and reset.isascii() and reset.isdigit():
        until = datetime.fromtimestamp(int(reset[:10]), UTC)
    if until is None or answered_at is None:
        return None
    return max(0.0, (until - answered_at).total_seconds())
