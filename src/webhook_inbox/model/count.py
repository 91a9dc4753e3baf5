"""Say how often something happened that leaves no row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """
    Count what one endpoint answered in one way.

    Attributes:
        endpoint: Its name; never text that a stranger chose.
        outcome: ``duplicate``, ``rejected``, ``failed`` or ``unavailable``, or ``(other)``.
        reason: A receipt's code; empty for a duplicate.
        number: How often; duplicates by event, the others by delivery.
    """

    endpoint: str
    outcome: str
    reason: str
    number: int
