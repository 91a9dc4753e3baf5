"""A provider's API is asked again where it says so, as long as it says, and not for ever."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from webhook_inbox.model.headers import Headers
from webhook_inbox.protocol.asking import ATTEMPTS_MAX, PAUSE_SECONDS_MAX, Unanswered, ask_api
from webhook_inbox.protocol.flow import Ask, Pause
from webhook_inbox.sources.listing import Request, Response

DATE = "Tue, 01 Jan 2030 00:00:00 GMT"
REQUEST = Request(url="https://api.example/v1/events", headers=(("authorization", "Bearer fake"),))


def response(status: int, **headers: str) -> Response:
    """An answer; ``_`` stands for the hyphens of its headers."""
    pairs = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, headers=Headers(pairs.items()), body=b"fake")


def asked(*heard: Response | Unanswered) -> tuple[Response | Unanswered, list[float]]:
    """What came of asking where these are the answers, and the pauses between."""
    pauses: list[float] = []
    answers = iter(heard)
    flow: Generator[Any, Any, Response | Unanswered] = ask_api(lambda request: next(answers), REQUEST)
    given: Any = None
    while True:
        try:
            step = flow.send(given)
        except StopIteration as stop:
            assert next(answers, None) is None, "it was asked less often"
            return stop.value, pauses
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            given = None
        else:
            assert isinstance(step, Ask)
            given = step.function(step.argument)


@pytest.mark.parametrize(
    ("trouble", "seconds"),
    [
        (response(429, retry_after="7"), 7.0),
        (response(429, retry_after="Tue, 01 Jan 2030 00:00:09 GMT", date=DATE), 9.0),
        (response(403, retry_after="7"), 7.0),
        (response(403, x_ratelimit_remaining="0", x_ratelimit_reset="1893456011", date=DATE), 11.0),
        (response(503, retry_after="3"), 3.0),
        (response(429, retry_after="Mon, 31 Dec 2029 00:00:00 GMT", date=DATE), 0.0),
    ],
)
def test_it_waits_as_long_as_it_is_told(trouble: Response, seconds: float) -> None:
    """On the provider's clock where it names a time; then it asks once more."""
    good = response(200)
    assert asked(trouble, good) == (good, [seconds])


@pytest.mark.parametrize(
    "trouble",
    [
        response(500),
        response(408),
        response(429),
        response(429, retry_after="soon"),
        response(429, retry_after="\N{SUPERSCRIPT TWO}"),
        response(403, x_ratelimit_remaining="0", x_ratelimit_reset="x"),
        Unanswered(reason="no answer"),
    ],
)
def test_it_waits_longer_each_time_where_it_is_told_nothing(trouble: Response | Unanswered) -> None:
    """A bounded number of times; what is then, is told."""
    last, pauses = asked(*[trouble] * ATTEMPTS_MAX)
    assert isinstance(last, Unanswered)
    assert last.later
    assert len(pauses) == ATTEMPTS_MAX - 1
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1] < PAUSE_SECONDS_MAX


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302, 204])
def test_what_stays_so_is_not_asked_again(status: int) -> None:
    """And no redirect is followed: the key is for this address."""
    heard, pauses = asked(response(status))
    assert isinstance(heard, Unanswered)
    assert (heard.status, heard.later, pauses) == (status, False, [])
    assert str(status) in heard.reason


def test_it_does_not_sit_out_a_long_limit() -> None:
    """The next run goes on after it; the reason says how long it is."""
    heard, pauses = asked(response(429, retry_after="3600"))
    assert isinstance(heard, Unanswered)
    assert (heard.later, heard.reason, pauses) == (
        True,
        "the rate limit is reached, for another 3600 seconds",
        [],
    )


def test_a_time_that_is_none_is_none_that_is_said() -> None:
    """P-CALM: whatever stands in a header, the request is made again or the reason told."""
    for date in (f"Tue, 01 Jan 2030 00:00:00 +{'9' * 20}", "Tue, 99 Jan 2030 00:00:00 GMT", "never", ""):
        heard, pauses = asked(response(429, retry_after=date, date=DATE), response(200))
        assert isinstance(heard, Response)
        assert len(pauses) == 1
