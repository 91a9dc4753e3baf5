"""
Print for people and for programs: data on stdout, talk on stderr, and nothing that a terminal would obey.

An event id is chosen by a stranger. Printed as it is, it could move the cursor, hide a line, turn the reading direction
around or break a line in a log; so every character that does not show as itself is written as an escape.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TextIO, TypeAlias

from webhook_inbox.cli.masking import mask

PROGRAM = "webhook-inbox"
Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow"]
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_COLUMN_WIDTH_MIN = 12
_INDENT = 4
_SECONDS_A_MINUTE, _SECONDS_AN_HOUR, _SECONDS_A_DAY = 60, 3_600, 86_400
#: What stdout was, while others' output goes to stderr.
_aside: TextIO | None = None


def visible(text: str) -> str:
    """Give *text* with every character that does not show as itself (controls, ESC, bidi, surrogates) as an escape."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def tell(line: str = "") -> None:
    """Print a line of data to stdout."""
    print(line, file=_stdout())


def tell_json(value: object) -> None:
    """Print *value* to stdout as one line of JSON in ASCII."""
    print(json.dumps(value), file=_stdout())


def say(line: str) -> None:
    """Print a line of talk to stderr, if anybody reads that; a secret that strayed into it is masked (P-QUIET)."""
    if sys.stderr is not None:  # as it is where a supervisor has closed it
        with contextlib.suppress(OSError):
            print(mask(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def others_aside() -> Iterator[None]:
    """
    Send to stderr what the user's code prints during the block, by whatever means: stdout is for our data alone.

    The descriptor itself is turned: a logger or a program of theirs may hold it by another name than ``sys.stdout``.
    What is told meanwhile goes where stdout went.
    """
    global _aside  # noqa: PLW0603 - as there is one descriptor of that number
    if _aside is not None or sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        yield
        return
    sys.stdout.flush()
    ours = os.fdopen(
        os.dup(1),
        "w",
        buffering=1 if is_terminal(sys.stdout) else -1,
        encoding=sys.stdout.encoding,
        errors=sys.stdout.errors,
    )
    _aside = ours
    try:
        os.dup2(2, 1)
        yield
    finally:
        with contextlib.suppress(OSError):  # nobody reads stderr
            sys.stdout.flush()
        os.dup2(ours.fileno(), 1)
        _aside = None
        ours.close()


def _stdout() -> TextIO:
    """Give where data goes."""
    return _aside or sys.stdout


def styled(text: str, style: Style, *, stream: TextIO | None = None) -> str:
    """Give *text* in *style* where *stream* (stdout) is a terminal that wants colours; see no-color.org."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if wants_colours(stream or _stdout()) else text


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
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    whole: Iterable[int] = (),
    first: Sequence[int] = (),
) -> list[str]:
    """
    Lay *rows* out in columns, two spaces apart, for ``tell``.

    Args:
        headings: Of the columns.
        rows: Cells as text, escaped here.
        numbers: Columns to align to the right, from 0.
        whole: Columns that are never cut: what another verb is told, numbers, times.
        first: Columns that go on a line of their own, the others indented below, where a line has no room for all.

    On a terminal, cells are cut in the middle until a line fits; a pipe gets them whole.
    """
    cells = [list(headings), *([visible(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    right, uncut = frozenset(numbers), frozenset(whole)
    room = shutil.get_terminal_size().columns if is_terminal(_stdout()) else None
    every = range(len(headings))
    least = [
        width if column in uncut else min(width, _COLUMN_WIDTH_MIN) for column, width in enumerate(widths)
    ]
    parts: list[tuple[int, Sequence[int]]] = [(0, every)]
    if first and room is not None and sum(least) + 2 * (len(least) - 1) > room:
        parts = [(0, first), (_INDENT, [column for column in every if column not in first])]
    for indent, columns in parts:
        _fit(widths, columns, uncut, None if room is None else room - indent)
    lines = [
        (" " * indent + _line(row, columns, widths, right)).rstrip()
        for row in cells
        for indent, columns in parts
    ]
    return [*(styled(line, "bold") for line in lines[: len(parts)]), *lines[len(parts) :]]


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


def _fit(widths: list[int], columns: Sequence[int], uncut: frozenset[int], room: int | None) -> None:
    """Narrow the widest of *columns* until they fit into *room*; no further than they are readable."""
    shrinking = [column for column in columns if column not in uncut]
    if room is None or not shrinking:
        return
    room -= 2 * (len(columns) - 1)
    while sum(widths[column] for column in columns) > room:
        widest = max(shrinking, key=lambda column: widths[column])
        if widths[widest] <= _COLUMN_WIDTH_MIN:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], columns: Sequence[int], widths: Sequence[int], right: frozenset[int]) -> str:
    return "  ".join(
        _padded(_shortened(row[column], widths[column]), widths[column], right=column in right)
        for column in columns
    )


def _shortened(cell: str, width: int) -> str:
    if _width(cell) <= width:
        return cell
    tail = (width - 1) // 2
    return _begun(cell, width - 1 - tail) + "…" + _begun(cell[::-1], tail)[::-1]


def _begun(text: str, width: int) -> str:
    """Give as much of the beginning of *text* as *width* columns have room for."""
    taken = 0
    for end, each in enumerate(text):
        taken += _width(each)
        if taken > width:
            return text[:end]
    return text


def _padded(cell: str, width: int, *, right: bool) -> str:
    gap = " " * (width - _width(cell))
    return gap + cell if right else cell + gap


def _width(text: str) -> int:
    """Count the columns that *text* takes on a terminal."""
    return sum(
        2 if unicodedata.east_asian_width(each) in "WF" else 0 if unicodedata.combining(each) else 1
        for each in text
    )
