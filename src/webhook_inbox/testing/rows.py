"""Tell how the rows of some tables differ from what they were, or should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

#: The rows of each table, as texts and without an order.
State: TypeAlias = Mapping[str, Counter[tuple[str | None, ...]]]
_ROWS_SHOWN = 20


def difference(expected: State, found: State) -> list[str]:
    """Give a line for each row that is missing (``-``) or too many (``+``), at most ``_ROWS_SHOWN``."""
    lines = []
    for name, rows in expected.items():
        for sign, more in (("-", rows - found[name]), ("+", found[name] - rows)):
            lines += [f"{sign} {name} {', '.join(map(str, row))}" for row in sorted(more.elements(), key=str)]
    return [
        *lines[:_ROWS_SHOWN],
        *([f"... and {len(lines) - _ROWS_SHOWN} more"] if len(lines) > _ROWS_SHOWN else []),
    ]
