"""
Print for people and for programs: data on stdout, talk on stderr, and nothing that a terminal would obey.

An event id is chosen by a stranger. Printed as it is, it could move the cursor, hide a line, turn the reading direction
around or break a line in a log; so every character that does not show as itself is written as an escape.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, TextIO, TypeAlias

from webhook_inbox.cli.masking import mask

PROGRAM = "webhook-inbox"
Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow"]
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_COLUMN_WIDTH_MIN = 12
_SECONDS_A_MINUTE, _SECONDS_AN_HOUR, _SECONDS_A_DAY = 60, 3_600, 86_400


def visible(text: str) -> str:
    """Give *text* with every character that does not show as itself (controls, ESC, bidi, surrogates) as an escape."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def tell(line: str = "") -> None:
    """Print a line of data to stdout."""
    print(line)


def tell_json(value: object) -> None:
    """Print *value* to stdout as one line of JSON in ASCII."""
    print(json.dumps(value))


def say(line: str) -> None:
    """Print a line of talk to stderr; a secret that strayed into it is masked (P-QUIET)."""
    print(mask(line), file=sys.stderr, flush=True)


def styled(text: str, style: Style, *, stream: TextIO | None = None) -> str:
    """Give *text* in *style* where *stream* (stdout) is a terminal that wants colours; see no-color.org."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if wants_colours(stream or sys.stdout) else text


def wants_colours(stream: TextIO) -> bool:
    """Say whether *stream* is a terminal whose user has not asked for plain text."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Say whether a person reads *stream*; a stream that was closed is nobody's."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()
) -> list[str]:
    """
    Lay *rows* out in columns, two spaces apart, for ``tell``.

    Args:
        headings: Of the columns.
        rows: Cells as text, escaped here.
        numbers: Columns to align to the right, from 0.

    On a terminal, cells are cut in the middle until a line fits; a pipe gets them whole.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    columns = [[heading, *column] for heading, *column in zip(headings, *cells, strict=True)]
    widths = _fitted([max(map(_width, column)) for column in columns])
    right = frozenset(numbers)
    lines = []
    for row in (list(headings), *cells):
        line = "  ".join(
            _padded(_shortened(cell, width), width, right=column in right)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(line.rstrip())
    return [styled(lines[0], "bold"), *lines[1:]]


def duration(seconds: float | None) -> str:
    """Give *seconds* as people say them: ``0.4 s``, ``4 min 12 s``, ``3 h 5 min``, ``2 d 7 h``; ``-`` for None."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < _SECONDS_A_MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"  # noqa: PLR2004 - a second digit tells enough from there on
    if whole < _SECONDS_AN_HOUR:
        return f"{whole // 60} min {whole % 60} s"
    if whole < _SECONDS_A_DAY:
        return f"{whole // _SECONDS_AN_HOUR} h {whole % _SECONDS_AN_HOUR // 60} min"
    return f"{whole // _SECONDS_A_DAY} d {whole % _SECONDS_A_DAY // _SECONDS_AN_HOUR} h"


def counted(number: int, one: str, several: str = "") -> str:
    """Give *number* with its noun: ``1 file``, ``3 files``."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def _fitted(widths: list[int]) -> list[int]:
    if not is_terminal(sys.stdout):
        return widths
    room = shutil.get_terminal_size().columns - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _COLUMN_WIDTH_MIN:
        widths[widths.index(max(widths))] -= 1
    return widths


def _shortened(cell: str, width: int) -> str:
    if _width(cell) <= width:
        return cell
    tail = (width - 1) // 2
    return cell[: width - 1 - tail] + "…" + cell[len(cell) - tail :]


def _padded(cell: str, width: int, *, right: bool) -> str:
    gap = " " * (width - _width(cell))
    return gap + cell if right else cell + gap


def _width(text: str) -> int:
    """Count the columns that *text* takes on a terminal."""
    return sum(
        2 if unicodedata.east_asian_width(each) in "WF" else 0 if unicodedata.combining(each) else 1
        for each in text
    )
