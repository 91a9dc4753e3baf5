"""Count what became of the payments at one receiver, and put it into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Fate: TypeAlias = Literal["booked once", "lost", "doubled", "for review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """
    Hold one row of ``count.sql``.

    Attributes:
        due: Payments that were made and should be booked.
        booked: Bookings there are.
        lost: Payments without a booking.
        doubled: Invoices with more bookings than payments.
        missing: What the lost ones add up to, in minor units.
        surplus: What is booked too much, in minor units.
        announced: Messages in the receiver's outbox, for all invoices.
        reviews: Items for a person to look at, for all invoices.
    """

    due: int
    booked: int
    lost: int
    doubled: int
    missing: int
    surplus: int
    announced: int
    reviews: int

    @property
    def fate(self) -> Fate:
        """Say in a word what became of the payment, where the tally is of one."""
        if self.lost:
            return "lost"
        if self.doubled:
            return "doubled"
        return "booked once" if self.due else "for review"
