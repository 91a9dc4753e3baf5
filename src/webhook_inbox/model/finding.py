"""Say what was found that makes a promise untrue, or may do so one day."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """Say how much a finding matters; in the order in which they are read."""

    WRONG = "wrong"
    RISKY = "risky"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    Tell of one thing, a sentence each; none holds a secret or a payload (P-QUIET).

    Attributes:
        name: Stable, for programs: ``connections``.
        weight: ``wrong``: a promise does not hold now; ``risky``: one will not on a bad day; ``note``: to be known.
        what: What is so.
        why: Why that matters.
        remedy: What to do.
    """

    name: str
    weight: Weight
    what: str
    why: str
    remedy: str
