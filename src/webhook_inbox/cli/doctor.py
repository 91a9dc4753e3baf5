"""Look for what makes a promise untrue, before it bites."""

from __future__ import annotations

import socket
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from webhook_inbox.cli.failures import BAD, GOOD, report
from webhook_inbox.cli.options import AppArgument, JsonOption
from webhook_inbox.cli.output import Style, say, styled, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError, StoreError
from webhook_inbox.model.finding import Finding, Weight

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox
    from webhook_inbox.sql.roles import Part

_COLUMNS = 80
_REACH_SECONDS_MAX = 3.0
_STYLES: Mapping[Weight, Style] = {Weight.WRONG: "red", Weight.RISKY: "yellow", Weight.NOTE: "dim"}
_PORTS = {
    "amqp": 5672,
    "amqps": 5671,
    "http": 80,
    "https": 443,
    "kafka": 9092,
    "nats": 4222,
    "redis": 6379,
    "rediss": 6379,
    "tls": 4222,
}


def doctor(
    *,
    app: AppArgument = None,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            show_envvar=False,
            help="How many processes receive and work at once, on all machines.",
        ),
    ] = 1,
    reach: Annotated[
        bool,
        typer.Option("--reach", show_envvar=False, help="Connect to each destination too, sending nothing."),
    ] = False,
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="ROLE",
            show_envvar=False,
            show_default=False,
            help="What the database's user does: receiver, worker, relay, operator, reader; again for more. "
            "Default: all of it.",
        ),
    ] = None,
    json: JsonOption = False,
) -> int:
    """
    Look for what makes a promise untrue, before it bites: in the database, the endpoints and their secrets.

    Each finding says what is so, why it matters and what to do. Exit 1 where something is wrong; what is risky, or only
    to be known, is shown. Changes nothing; never shows a secret.
    """
    from webhook_inbox.cli.load import load_inbox

    inbox = load_inbox(app)
    try:
        found = _findings(inbox, app, parts=_parts(part), processes=processes, reach=reach)
    except StoreError as error:
        if json:
            tell_json({"healthy": False, "error": {"code": error.code, "message": str(error)}})
        return report(error)
    healthy = not any(each.weight is Weight.WRONG for each in found)
    if json:
        tell_json({"healthy": healthy, "findings": [asdict(each) for each in found]})
    else:
        _show(found)
    return GOOD if healthy else BAD


def _parts(named: Sequence[str] | None) -> tuple[Part, ...]:
    from webhook_inbox.sql.roles import PARTS

    if unknown := [each for each in named or () if each not in PARTS]:
        raise ConfigurationError(f"--part {unknown[0]!r} is none of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if not named or part in named)


def _findings(
    inbox: Inbox, app: str | None, *, parts: Sequence[Part], processes: int, reach: bool
) -> tuple[Finding, ...]:
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.protocol.diagnosis import by_weight, diagnose
    from webhook_inbox.protocol.doctor import read_health

    health = ask_inbox(inbox, lambda each: each.perform(partial(read_health, parts=parts)), app=app)
    found = diagnose(health, list(inbox.endpoint_plans.values()), processes=processes)
    return by_weight([*found, *(_unreached(inbox.destinations) if reach else ())])


def _show(found: Sequence[Finding]) -> None:
    for each in found:
        tell(f"{styled(each.weight, _STYLES[each.weight])}: {each.name}")
        text = visible(f"{each.what} {each.why} {each.remedy}")
        for line in textwrap.wrap(text, _COLUMNS - 2, break_long_words=False, break_on_hyphens=False):
            tell(f"  {line}")
        tell()
    if not found:
        say("nothing is found")


def _unreached(destinations: Mapping[str, str]) -> Iterator[Finding]:
    """Find the destinations of which no address takes a connection; by name, with their places."""
    for name, place in destinations.items():
        reached = [_reached(each) for each in _urls(place)]
        if False in reached and True not in reached:
            yield Finding(
                name="unreached",
                weight=Weight.WRONG,
                what=f"Destination {name} cannot be reached from here: {place}.",
                why="Its messages wait in the outbox.",
                remedy="See that it listens there, and that the network lets this machine through.",
            )


def _urls(place: str) -> list[str]:
    """Give the URLs in the *place* of a destination; none where it does not show them."""
    kind, _, rest = place.partition(" ")
    urls = "" if rest.startswith("(") else rest.split(" ")[0]
    return [each if "://" in each else f"{kind}://{each}" for each in urls.split(",")]


def _reached(url: str) -> bool | None:
    """Say whether *url* leads to a host that takes a connection; None where it leads nowhere, as a function does."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
        if not host or not port:
            return None
        socket.create_connection((host, port), timeout=_REACH_SECONDS_MAX).close()
    except (OSError, ValueError):  # nobody answers, or it is written wrongly
        return False
    return True
