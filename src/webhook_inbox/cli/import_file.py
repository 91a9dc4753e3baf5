"""Read files that name events: an id a line, CSV with a heading, or a JSON object a line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.processed_before import ProcessedBefore
from webhook_inbox.sources.identity import time_of

FORMATS = ("ids", "csv", "jsonl")
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_COLUMNS = ("id", "type", "account", "environment", "received_at")
_LINE_CHARS_MAX = 65_536
_TOLD_MAX = 1_000
_DIGITS_MAX = 20
_NOTHING = (None, "")
Fields = Mapping[str, object]


@dataclass(slots=True)
class Unfit:
    """
    Hold what could not be read.

    Attributes:
        number: How many lines.
        lines: The first of them, by number, with the reason.
    """

    number: int = 0
    lines: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, reason: str) -> None:
        """Note one."""
        self.number += 1
        if len(self.lines) < _TOLD_MAX:
            self.lines[line] = reason


def format_of(file: str, said: str) -> str:
    """
    Give the format of *file*: as *said*, else as its name ends, else an id a line.

    Raises:
        ConfigurationError: *said* is none.
    """
    if said and said not in FORMATS:
        raise ConfigurationError(f"--format {said!r} is none of {', '.join(FORMATS)}")
    return said or _SUFFIXES.get(Path(file).suffix.lower(), "ids")


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """
    Open *file*, or stdin for ``-``.

    Raises:
        ConfigurationError: It cannot be read; says why.
    """
    if file == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            content = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
        yield content


def named_events(
    content: BinaryIO,
    form: str,
    usual: Fields,
    *,
    unfit: Callable[[ProcessedBefore], str],
    told: Unfit,
) -> Iterator[ProcessedBefore]:
    """
    Give each event that *content* names, as it is read; a blank line names none.

    Args:
        form: One of ``FORMATS``.
        usual: Account and environment, where a line has none of its own.
        unfit: Says why an event cannot be; empty: it can.
        told: Hears of each line that names none; never quoted, since a wrong column may hold anything.

    Raises:
        ConfigurationError: A CSV's heading names no ``id``, or something unknown.
    """
    lines = TextIOWrapper(content, "utf-8-sig", errors="surrogateescape", newline="")
    for number, fields in {"ids": _ids, "csv": _csv, "jsonl": _jsonl}[form](lines):
        event = fields if isinstance(fields, str) else _event({**usual, **_said(fields)})
        reason = event if isinstance(event, str) else unfit(event)
        if reason or isinstance(event, str):
            told.add(number, reason)
        else:
            yield event


def _said(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value not in _NOTHING}


def _event(fields: Fields) -> ProcessedBefore | str:
    """Make an event of *fields*, or say why there is none in them."""
    texts = {name: _text(fields.get(name)) for name in _COLUMNS[:-1]}
    if bad := [name for name, text in texts.items() if text is None]:
        return f"{bad[0]} is no text"
    if bad := [name for name in ("account", "environment") if not (texts[name] or "").isprintable()]:
        return f"{bad[0]} holds characters that none has"
    when = fields.get("received_at") or None
    received_at = time_of(_number(when))
    if when is not None and received_at is None:
        return "received_at is no time: 2030-01-31T12:00:00Z, or seconds since 1970"
    return ProcessedBefore(
        event_id=texts["id"] or "",
        event_type=texts["type"] or "",
        account=texts["account"] or "",
        environment=texts["environment"] or "",
        received_at=received_at,
    )


def _text(value: object) -> str | None:
    match value:
        case None:
            return ""
        case str():
            return value.strip()
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            return None


def _number(value: object) -> object:
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX
    return int(str(value)) if digits else value


def _bounded(lines: TextIOWrapper) -> Iterator[str]:
    """Give line by line; of one that is too long its beginning, which is no event."""
    while line := lines.readline(_LINE_CHARS_MAX):
        rest = line
        while len(rest) == _LINE_CHARS_MAX and not rest.endswith("\n"):
            rest = lines.readline(_LINE_CHARS_MAX)
        yield line


def _ids(lines: TextIOWrapper) -> Iterator[tuple[int, Fields | str]]:
    for number, line in enumerate(_bounded(lines), start=1):
        if text := line.strip():
            yield number, {"id": text}


def _jsonl(lines: TextIOWrapper) -> Iterator[tuple[int, Fields | str]]:
    for number, line in enumerate(_bounded(lines), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        yield number, value if isinstance(value, dict) else "no JSON object"


def _csv(lines: TextIOWrapper) -> Iterator[tuple[int, Fields | str]]:
    heading: list[str] = []
    # Line by line: a quote that is never closed must not swallow the ids below it.
    for number, line in enumerate(_bounded(lines), start=1):
        try:
            row = next(csv.reader([line], strict=True), [])
        except csv.Error:
            row = []
        if not heading:
            heading = [name.strip().lower() for name in row]
            _check_heading(heading)
        elif len(row) == len(heading):
            yield number, dict(zip(heading, row, strict=True))
        elif line.strip():
            yield number, f"{len(row)} columns below a heading of {len(heading)}" if row else "no line of CSV"
    _check_heading(heading)


def _check_heading(heading: Iterable[str]) -> None:
    unknown = [name for name in heading if name not in _COLUMNS]
    if "id" not in heading or unknown:
        raise ConfigurationError(
            f"the first line of a CSV names its columns: id, and any of {', '.join(_COLUMNS[1:])}"
        )
