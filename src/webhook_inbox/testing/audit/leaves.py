"""
Find where the values of a JSON document stand in its text.

A parser says what a document holds and forgets how it was written. Whoever changes one value, and must leave every
other byte as it is, has to know the places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TEXT = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'{_TEXT}|[\[\]{{}},]|[^\s\[\]{{}}:,"]+')
_TEXT_AND_COLON = re.compile(rf"({_TEXT})(\s*:)?")


@dataclass(frozen=True, slots=True)
class Leaf:
    """
    Hold one text, number, truth value or null.

    Attributes:
        path: The members' names and the places in arrays that lead to it, with dots: ``data.0.id``.
        value: What it says.
        start: Where it begins.
        stop: Where what follows it begins.
    """

    path: str
    value: Any
    start: int
    stop: int


def leaves(text: str) -> Iterator[Leaf]:
    """Give each leaf of *text*, which is a JSON document, in the order in which they stand; names are none."""
    way: list[Any] = []  # a place in an array, a member's name, or None where a name comes next
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                way.append(None)
            case "[":
                way.append(0)
            case "}" | "]":
                way.pop()
            case ",":
                way[-1] = way[-1] + 1 if isinstance(way[-1], int) else None
            case name if way and way[-1] is None:
                way[-1] = json.loads(name)
            case value:
                yield Leaf(".".join(map(str, way)), json.loads(value), token.start(), token.end())


def spaced(text: str) -> str:
    """
    Put white space into *text*, which is a JSON document, where it may stand.

    Not before its first brace: some sources tell a body from a URL by it.
    """
    return _TEXT_AND_COLON.sub(lambda found: found[1] + (" \n:\t " if found[2] else ""), text) + " \n"
