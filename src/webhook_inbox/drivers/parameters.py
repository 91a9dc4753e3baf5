"""Write a statement's parameters as PostgreSQL's own protocol has them, for drivers that speak it: by their numbers."""

from __future__ import annotations

import re
from functools import cache

_PLACE = re.compile(r"%\((?P<name>\w+)\)s(?:::(?P<type>\w+)(?P<array>\[\])?)?|%%")


@cache
def numbered(text: str, as_text: frozenset[str] = frozenset()) -> tuple[str, tuple[str, ...]]:
    """
    Give *text* with ``$1`` in place of ``%(name)s``, and the names in the order of their numbers, each once.

    Args:
        as_text: Types whose values are sent as text: ``%(name)s::jsonb`` is ``$1::text::jsonb`` then.
    """
    numbers: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        name, kind, array = found["name"], found["type"], found["array"] or ""
        if name is None:
            return "%"
        number = f"${numbers.setdefault(name, len(numbers) + 1)}"
        if kind is None:
            return number
        return f"{number}{f'::text{array}' if kind in as_text else ''}::{kind}{array}"

    return _PLACE.sub(place, text), tuple(numbers)
