"""
Deliver signed payloads as a provider does: several at once, several times, at a rate, again until acknowledged.

Every attempt is signed anew, with the time of that attempt. Only the given URL is talked to: no redirect is followed
and no proxy of the environment is asked.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from webhook_inbox._version import __version__
from webhook_inbox.cli.payloads import Payload
from webhook_inbox.testing.signers import Signed

_ANSWER_BYTES_MAX = 65_536
_CODE_CHARS_MAX = 40
_SENTENCE_CHARS_MAX = 300
_BACKOFF_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    Say how to deliver.

    Attributes:
        url: Where to.
        sign: Gives headers and body of one attempt, from payload and Unix seconds.
        concurrent: Deliveries under way at once.
        per_second: Deliveries that may start each second; None: as fast as they go.
        retries: Further attempts of a delivery that was not acknowledged.
        retry_wait_seconds_max: The longest pause before one, whatever Retry-After says.
        timeout_seconds: Of one attempt, from connecting to the end of the answer.
    """

    url: str
    sign: Callable[[Payload, int], Signed]
    concurrent: int
    per_second: float | None
    retries: int
    retry_wait_seconds_max: float
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    Say what one delivery came to, by its last attempt.

    Attributes:
        status: HTTP status; None where no answer came.
        outcome: What the receiver says became of it; without an answer, why there is none; else empty.
        reason: The receiver's short code for that; empty where it gave none.
        error: A sentence that says more: the receiver's own, or ours where nobody answers; else empty.
        attempts: From 1.
        seconds: Of the last attempt.
        retry_after_seconds: What the receiver asked for; None where it did not.
        unhandled_type: The event's type where the receiver ignored it because it has no handler for that; else empty.
        event_id: The event's id as the receiver knows it; empty where it named none, or several.
        state: Where the event stands at the receiver; empty where it did not say.
    """

    status: int | None
    outcome: str
    attempts: int
    seconds: float
    reason: str = ""
    error: str = ""
    retry_after_seconds: float | None = None
    unhandled_type: str = ""
    event_id: str = ""
    state: str = ""

    @property
    def acknowledged(self) -> bool:
        """Say whether the provider would be satisfied."""
        return self.status is not None and self.status // 100 == 2  # noqa: PLR2004 - 2xx


@dataclass(frozen=True, slots=True)
class _Said:
    """Hold what an answer's body says."""

    outcome: str = ""
    reason: str = ""
    error: str = ""
    unhandled_type: str = ""
    event_id: str = ""
    state: str = ""


async def deliver_all(
    payloads: Sequence[Payload], plan: Plan, told: Callable[[int, Answer], None]
) -> list[Answer]:
    """
    Deliver each of *payloads*, starting them in order.

    Args:
        payloads: One entry per delivery; the same payload may stand there several times.
        plan: How.
        told: Called with (position, answer) as deliveries end.

    Returns:
        One answer per delivery, in the order of *payloads*.
    """
    answers: dict[int, Answer] = {}
    turns = iter(enumerate(payloads))  # shared: each courier takes the next one
    began = time.monotonic()
    limits = httpx.Limits(max_connections=plan.concurrent, max_keepalive_connections=plan.concurrent)

    async def courier(client: httpx.AsyncClient) -> None:
        for position, payload in turns:
            if plan.per_second:
                await asyncio.sleep(max(0.0, began + position / plan.per_second - time.monotonic()))
            answers[position] = await _deliver(client, payload, plan)
            told(position, answers[position])

    async with (
        httpx.AsyncClient(timeout=plan.timeout_seconds, limits=limits, trust_env=False) as client,
        asyncio.TaskGroup() as couriers,
    ):
        for _ in range(min(plan.concurrent, len(payloads))):
            couriers.create_task(courier(client))
    return [answers[position] for position in range(len(payloads))]


async def _deliver(client: httpx.AsyncClient, payload: Payload, plan: Plan) -> Answer:
    attempt = 1
    while True:
        answer = await _attempt(client, payload, plan, attempt)
        if answer.acknowledged or attempt > plan.retries:
            return answer
        asked = answer.retry_after_seconds
        wait = random.uniform(0, _BACKOFF_SECONDS * 2**attempt) if asked is None else asked  # noqa: S311 - jitter
        await asyncio.sleep(min(wait, plan.retry_wait_seconds_max))
        attempt += 1


async def _attempt(client: httpx.AsyncClient, payload: Payload, plan: Plan, attempt: int) -> Answer:
    signed = plan.sign(payload, int(time.time()))
    headers = {
        "content-type": "application/json",
        "user-agent": f"webhook-inbox-send/{__version__}",
        **dict(signed.headers),
    }
    status, said, retry_after = None, _Said(), None
    began = time.monotonic()
    try:
        async with (
            asyncio.timeout(plan.timeout_seconds),
            client.stream("POST", plan.url, headers=headers, content=signed.body) as response,
        ):
            status, said = response.status_code, _read(await _beginning(response))
            retry_after = _seconds(response.headers.get("retry-after", ""))
    except (TimeoutError, httpx.TimeoutException):
        status, said = None, _Said("timed out")
    except httpx.ConnectError as error:
        said = _Said("no connection", error=_unconnected(error, _place(plan.url)))
    except httpx.HTTPError:
        status, said = None, _Said("connection lost")
    return Answer(
        status=status,
        outcome=said.outcome,
        attempts=attempt,
        seconds=time.monotonic() - began,
        reason=said.reason,
        error=said.error,
        retry_after_seconds=retry_after,
        unhandled_type=said.unhandled_type,
        event_id=said.event_id,
        state=said.state,
    )


async def _beginning(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _ANSWER_BYTES_MAX:
            break
    return body


def _unconnected(error: httpx.ConnectError, place: str) -> str:
    """Say that there is no connection to *place*, and what to look at."""
    beneath: BaseException | None = error
    while beneath is not None:
        if isinstance(beneath, ssl.SSLError):
            return f"no TLS with {place}: does it speak that, and is its certificate trusted here?"
        beneath = beneath.__cause__ or beneath.__context__
    return f"no connection to {place}: is `webhook-inbox serve` running?"


def _place(url: str) -> str:
    """Give host and port, without what else *url* may hold (P-QUIET)."""
    parsed = httpx.URL(url)
    host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    return f"{host}:{parsed.port or (443 if parsed.scheme == 'https' else 80)}"


def _read(body: bytes) -> _Said:
    """Read an answer of ours; anybody else's is left unread."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _Said()
    if not isinstance(value, dict):
        return _Said()
    names = {
        "outcome": _CODE_CHARS_MAX,
        "reason": _CODE_CHARS_MAX,
        "error": _SENTENCE_CHARS_MAX,
        "unhandled_type": _SENTENCE_CHARS_MAX,
        "event_id": _SENTENCE_CHARS_MAX,
        "state": _CODE_CHARS_MAX,
    }
    return _Said(
        **{
            name: found[:chars] if isinstance(found := value.get(name), str) else ""
            for name, chars in names.items()
        }
    )


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None
