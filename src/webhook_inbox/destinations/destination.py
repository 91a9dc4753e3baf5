"""
Say what a destination is: send and report, nothing else.

The relay claims messages in a short transaction, hands them to ``send`` while no transaction is open, and settles each
by its verdict. When, how often and in which order is the relay's; a destination neither retries nor remembers.

    relay                                      destination
      │ ── open() ─────────────────────────────► │   connect; before anything is claimed
      │ ── send([message, ...]) ───────────────► │   as many as its limits allow, different keys where order is asked
      │ ◄──────────────── [Sent | Failed, ...] ─ │   one each, in their order
      │ ── close() ────────────────────────────► │   at the end, and after ``send`` or ``open`` raised

*Sent* is what the other side has confirmed, nothing less: a broker's acknowledgement, a 2xx, a function's return. What
is in doubt is ``Failed``: it is sent again under the same id, which goes where the other side looks for duplicates
(P-OUT).

*Failed(stop=True)* is for the destination itself: unreachable, overloaded, no permission. The relay sends it nothing
for ``retry_in_seconds``, or as its breaker says, and the message is not charged for it. What lies in the message (too
large, refused, unroutable) is a plain ``Failed``, permanent where the other side would always say so.

*An exception* from ``send`` leaves all of the batch in doubt: each message fails, the destination is closed, and opened
again before the next batch. So a lost connection needs no code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from webhook_inbox.model.message import Limits, Message, Verdict


@runtime_checkable
class Destination(Protocol):
    """Be told of what was committed."""

    @property
    def place(self) -> str:
        """Say what it is and where it leads, for operators: ``http https://mail.example``; never a secret."""
        ...

    @property
    def limits(self) -> Limits:
        """Give what it can take at once."""
        ...

    async def open(self) -> None:
        """
        Make ready to send; called on the event loop that ``send`` will be called on.

        Raises:
            Exception: It cannot be reached; it is tried again later, nothing is claimed meanwhile.
        """
        ...

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """
        Send *messages*, and wait for what the other side says of each.

        Args:
            messages: At least one, at most ``limits.batch_messages_max``.

        Returns:
            One verdict each, in their order.

        Raises:
            Exception: The fate of all is unknown. Cancelled past ``limits.send_seconds_max``, or when the relay stops.
        """
        ...

    async def close(self) -> None:
        """Let go of what ``open`` took; never raises, and may be called twice, or where ``open`` failed."""
        ...
