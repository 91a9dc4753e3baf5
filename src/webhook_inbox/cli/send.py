"""Sign real payloads and deliver them, as their provider would."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.extras import require
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import JsonOption, option
from webhook_inbox.cli.output import is_terminal, say, tell_json
from webhook_inbox.cli.signing import EventTypeOption, SecretOption, SourceOption, known_secret
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.cli.deliver import Answer, Plan
    from webhook_inbox.cli.payloads import Payload
    from webhook_inbox.testing.signers import Signed

_SEEDS = 2**32


def send(
    *,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The endpoint, for instance http://127.0.0.1:8000/billing.")
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Payloads; a folder stands for the files in it.")
    ],
    source: SourceOption,
    event_type: EventTypeOption = None,
    secret: SecretOption = None,
    duplicate: Annotated[
        int, option("--duplicate", metavar="N", min=1, help="Deliver each file N times.")
    ] = 1,
    concurrent: Annotated[
        int, option("--concurrent", metavar="N", min=1, max=1_000, help="Deliveries under way at once.")
    ] = 1,
    shuffle: Annotated[bool, option("--shuffle", help="Deliver in random order.")] = False,
    seed: Annotated[
        int | None,
        option("--seed", metavar="N", show_default=False, help="Repeat the order of an earlier --shuffle."),
    ] = None,
    rate: Annotated[
        float | None,
        option(
            "--rate", metavar="N", min=0.001, show_default=False, help="Start at most N deliveries a second."
        ),
    ] = None,
    retries: Annotated[
        int,
        option("--retries", metavar="N", min=0, help="Further attempts until one is acknowledged with 2xx."),
    ] = 0,
    retry_wait_seconds_max: Annotated[
        float,
        option(
            "--retry-wait-seconds-max",
            metavar="N",
            min=0,
            help="Longest pause before one, whatever Retry-After says.",
        ),
    ] = 5.0,
    timeout: Annotated[
        float, option("--timeout", metavar="SECONDS", min=0.001, help="Of one attempt.")
    ] = 30.0,
    json: JsonOption = False,
) -> int:
    """
    Sign real payloads and deliver them to a receiver.

    Bytes and event ids are sent as the files have them, so a file sent twice is a redelivery; only sources that sign
    inside the body (adyen, linear, mailgun, sns) have it written anew. Nothing but URL is talked to. Exit 1 if a
    delivery was not acknowledged with 2xx.
    """
    require("send", "server", "httpx")
    from webhook_inbox.cli.deliver import Plan
    from webhook_inbox.cli.payloads import read_payloads
    from webhook_inbox.cli.send_result import Sent

    payloads = read_payloads(files)
    deliveries = [payload for payload in payloads for _ in range(duplicate)]
    if shuffle or seed is not None:
        _shuffle(deliveries, seed)
    plan = Plan(
        url=_checked(url),
        sign=_signer(source, secret, event_type or "", url, payloads),
        concurrent=concurrent,
        per_second=rate,
        retries=retries,
        retry_wait_seconds_max=retry_wait_seconds_max,
        timeout_seconds=timeout,
    )
    began = time.monotonic()
    answers = _deliver(deliveries, plan)
    sent = Sent.of(payloads, deliveries, answers, seconds=time.monotonic() - began)
    if json:
        tell_json(sent.facts())
    else:
        sent.show()
    return GOOD if sent.all_acknowledged else BAD


def _shuffle(deliveries: list[Payload], seed: int | None) -> None:
    """Bring *deliveries* into the order that *seed* stands for, and say which seed it was."""
    seed = random.randrange(_SEEDS) if seed is None else seed  # noqa: S311 - an order, not a key
    random.Random(seed).shuffle(deliveries)  # noqa: S311
    say(f"shuffled; --seed {seed} repeats this order")


def _checked(url: str) -> str:
    """Refuse a *url* that nobody can post to, without quoting it: it may hold credentials (P-QUIET)."""
    import httpx

    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise ConfigurationError("URL is none; expected http://host:port/endpoint") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigurationError("URL is none of http or https; expected http://host:port/endpoint")
    return url


def _signer(
    source: str, secret: str | None, event_type: str, url: str, payloads: Sequence[Payload]
) -> Callable[[Payload, int], Signed]:
    """Give what signs one attempt; a secret or a payload of the wrong form is found here, before anything is sent."""
    from webhook_inbox.testing.signers import SIGNERS, Draft

    secret = known_secret(source, secret, event_type)
    draft = Draft(body=b"", secret=secret, event_id="", event_type=event_type, timestamp=0, url=url)

    def sign(payload: Payload, timestamp: int) -> Signed:
        filled = replace(draft, body=payload.body, event_id=payload.signed_id, timestamp=timestamp)
        return SIGNERS[source](filled)

    for payload in payloads:
        try:
            headers = sign(payload, 0).headers
        except (ValueError, TypeError, LookupError, AttributeError):
            wrong = f"the secret, or {payload.file}, has not the form that {source}'s have"
            raise ConfigurationError(wrong) from None
        if not all(text.isascii() and text.isprintable() for pair in headers for text in pair):
            raise ConfigurationError(f"the type, the secret, or the id in {payload.file} fits into no header")
    return sign


def _deliver(deliveries: Sequence[Payload], plan: Plan) -> list[Answer]:
    import asyncio

    from webhook_inbox.cli.deliver import deliver_all

    watched = is_terminal(sys.stderr)
    done = 0

    def told(_position: int, _answer: Answer) -> None:
        nonlocal done
        done += 1
        if watched:
            print(f"\r{done}/{len(deliveries)}", end="", file=sys.stderr, flush=True)

    try:
        return asyncio.run(deliver_all(deliveries, plan, told))
    finally:
        if watched and done:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
