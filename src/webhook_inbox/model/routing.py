"""Say where messages go: to which destinations, by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.message import Limits

DeadMessage: TypeAlias = Literal["hold", "skip"]
_NAME_CHARS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """
    Describe one destination to the plans; its clients live elsewhere.

    Attributes:
        name: As users route to it; stored with each message that goes there.
        limits: What it can take at once.
        ordered: Whether the messages of one aggregate are sent one at a time, in the order in which they were written.
        dead_message: Whether a dead one then holds the later ones of its aggregate, or lets them pass.
    """

    name: str
    limits: Limits
    ordered: bool = False
    dead_message: DeadMessage = "hold"

    def __post_init__(self) -> None:
        """Refuse a name that nobody could store or read."""
        if not self.name or len(self.name) > _NAME_CHARS_MAX or not self.name.isprintable():
            raise ConfigurationError(
                f"destination {self.name!r}: a name is 1 to {_NAME_CHARS_MAX} printable characters"
            )
        if self.dead_message not in ("hold", "skip"):
            raise ConfigurationError(f"destination {self.name}: dead_message is 'hold' or 'skip'")


@dataclass(frozen=True, slots=True)
class Route:
    """
    Send the messages of some types to one destination.

    Attributes:
        event_type: A type, or a pattern: ``Invoice*`` is each type that begins so, ``*`` every type.
        to: The destination's name.
    """

    event_type: str
    to: str

    def __post_init__(self) -> None:
        """Refuse a pattern that reads as if it could do more."""
        if not self.event_type or "*" in self.event_type[:-1]:
            raise ConfigurationError(
                f"route {self.event_type!r}: give a type, a beginning with a * at its end, or * alone"
            )

    @property
    def pattern(self) -> str:
        """Give it as LIKE reads it."""
        return like(self.event_type)


@dataclass(frozen=True, slots=True)
class Routing:
    """
    Hold where everything goes.

    Attributes:
        outlets: Every destination there is.
        routes: Where there is none and one destination, everything goes there.
    """

    outlets: Sequence[Outlet]
    routes: Sequence[Route]

    def __post_init__(self) -> None:
        """Refuse a route that leads nowhere."""
        known = [each.name for each in self.outlets]
        for route in self.routes:
            if route.to not in known:
                raise ConfigurationError(
                    f"route {route.event_type!r} leads to {route.to!r}, which is no destination; "
                    f"there are: {', '.join(known) or 'none'}"
                )

    @property
    def rules(self) -> Sequence[Route]:
        """Give the routes, or the one that goes without saying."""
        if not self.routes and len(self.outlets) == 1:
            return (Route("*", self.outlets[0].name),)
        return self.routes


def like(pattern: str) -> str:
    """Give *pattern*, whose only special character is a ``*`` at its end, as LIKE reads it."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{escaped[:-1]}%" if escaped.endswith("*") else escaped
