"""Declare the options by which an operator says which events are meant, once for every verb that takes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        show_envvar=False,
        show_default=False,
        help="Only events in this state; may be given several times.",
    ),
]
EndpointOption = Annotated[
    str,
    typer.Option(
        "--endpoint", metavar="NAME", show_envvar=False, show_default=False, help="Only of this endpoint."
    ),
]
TypeOption = Annotated[
    str,
    typer.Option(
        "--type",
        metavar="TYPE",
        show_envvar=False,
        show_default=False,
        help="Only of this type; 'invoice.*' means all that begin so.",
    ),
]
IdOption = Annotated[
    str,
    typer.Option(
        "--id",
        metavar="EVENT-ID",
        show_envvar=False,
        show_default=False,
        help="Only with this id, by which the provider knows the event.",
    ),
]
SinceOption = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="WHEN",
        show_envvar=False,
        show_default=False,
        help="Only received since: 90s, 15m, 3h, 2d or 1w ago, or a time such as 2030-01-31T12:00 (UTC).",
    ),
]
UntilOption = Annotated[
    str,
    typer.Option(
        "--until", metavar="WHEN", show_envvar=False, show_default=False, help="Only received before."
    ),
]
ErrorOption = Annotated[
    str,
    typer.Option(
        "--error",
        metavar="TEXT",
        show_envvar=False,
        show_default=False,
        help="Only where this is a part of the last error, in any letter case.",
    ),
]


def event_filter(
    *,
    state: list[str] | None,
    endpoint: str,
    type: str,
    id: str,
    since: str,
    until: str,
    error: str,
) -> EventFilter:
    """
    Give what the options mean.

    Raises:
        ConfigurationError: A state or a time is none.
    """
    return EventFilter(
        states=tuple(dict.fromkeys(_state(each) for each in state or ())),
        endpoint=endpoint,
        event_type=type,
        event_id=id,
        error=error,
        since=moment("--since", since),
        until=moment("--until", until),
    )


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise ConfigurationError(f"--state {text!r} is none of {', '.join(State)}") from None


def moment(option: str, text: str) -> datetime | timedelta | None:
    """Read a time, or how long ago: that is counted on the server's clock (P-CLOCK)."""
    if not text:
        return None
    try:
        if ago := _AGO.fullmatch(text):
            span = timedelta(**{_UNITS[ago[2]]: float(ago[1])})
            # Raises where no calendar reaches so far back; the server would refuse it without naming the option.
            _ = datetime.now(UTC) - span
            return span
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"{option} {text!r} is no time: 90s, 15m, 3h, 2d, 1w, or 2030-01-31T12:00 (UTC)"
        ) from None
