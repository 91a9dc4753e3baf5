"""Write the page of states from the tables of moves: ``python -m tests.docs.states > docs/explanation/states.md``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from webhook_inbox.model.moves import EVENT_MOVES, MESSAGE_MOVES, SEND_MOVES, Move

_HEAD = """\
# States and moves

What can become of an event, and of a message on its way. Nothing moves otherwise: each move is one SQL statement (its
name is the file in `sql/statements`), the statements are compared with these tables, and a trigger watches what they
really do while the tests run. "none" is where there is no row.
"""
_PARTS: Sequence[tuple[str, Sequence[Move[Any]]]] = (
    ("An event: `webhooks.inbox.state`", EVENT_MOVES),
    ("A message on its way to one destination: `webhooks.sends.state`", SEND_MOVES),
    ("A message until it is routed: `webhooks.outbox.state`", MESSAGE_MOVES),
)


def page() -> str:
    """Give the page."""
    return "\n".join([_HEAD, *(_section(title, moves) for title, moves in _PARTS)])


def _section(title: str, moves: Sequence[Move[Any]]) -> str:
    rows = [f"| {_states(m.begins)} | {_states(m.ends)} | {m.means} | `{m.by}` |" for m in moves]
    return "\n".join(
        [f"## {title}", "", "| from | to | when | statement |", "| --- | --- | --- | --- |", *rows, ""]
    )


def _states(states: Sequence[StrEnum]) -> str:
    return ", ".join(f"`{state}`" for state in states) or "none"


if __name__ == "__main__":
    sys.stdout.write(page())
