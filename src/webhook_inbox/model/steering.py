"""Let a handler say, by raising, what shall become of its event; drivers turn these into values at the edge."""

from __future__ import annotations

from typing import TypeAlias

RETRY_IN_SECONDS = 30.0
RETRY_IN_SECONDS_MAX = 604_800  # a week: longer than any provider goes on sending


class Ignore(Exception):  # noqa: N818 - reads as an order: raise Ignore("not ours")
    """
    Roll back this handler's writes and emits, keep its reviews, and commit the event as ignored; the sender hears 200.

    Args:
        reason: Kept with the event and shown to operators; no payload in it (P-QUIET).
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class GiveUp(Exception):  # noqa: N818 - reads as an order
    """
    Roll back this handler's writes and emits, keep its reviews, and commit the event as dead; the sender hears 200.

    Args:
        reason: As in ``Ignore``.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class NotYet(Exception):  # noqa: N818 - reads as an order
    """
    Roll everything back and come again later; inline, the sender hears 503 with ``Retry-After``.

    Args:
        reason: As in ``Ignore``.
        retry_in_seconds: When to try again, above 0, up to ``RETRY_IN_SECONDS_MAX``.

    Raises:
        ValueError: *retry_in_seconds* is out of range.
    """

    def __init__(self, reason: str = "", *, retry_in_seconds: float = RETRY_IN_SECONDS) -> None:
        super().__init__(reason)
        if not 0 < retry_in_seconds <= RETRY_IN_SECONDS_MAX:  # NaN too
            raise ValueError(f"NotYet: retry_in_seconds must be above 0 and at most {RETRY_IN_SECONDS_MAX}")
        self.reason = reason
        self.retry_in_seconds = retry_in_seconds


Steering: TypeAlias = Ignore | GiveUp | NotYet
STEERING = (Ignore, GiveUp, NotYet)
