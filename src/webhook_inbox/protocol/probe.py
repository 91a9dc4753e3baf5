"""
Let a test stand at every fault point; inert in production.

A fault point is a place where a process may die: before and after every step of every plan, and before and after every
answer. The points are not chosen but enumerated, from the plans themselves: ``record_one.record_event.before``,
``record_one.commit.after``, ``answer.before``, ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Probe: TypeAlias = Callable[[str], None]


def no_probe(point: str) -> None:
    """Do nothing at *point*."""
