"""Hold what the story came to, and decide whether it showed what it should."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webhook_inbox.demo.tally import Fate, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    Hold how one receiver fared in one chapter.

    Attributes:
        answers: What the sender heard from it, in words.
        tally: Of the chapter's invoice.
        expected: What should have become of the payment here.
    """

    receiver: str
    answers: str
    tally: Tally
    expected: Fate

    @property
    def as_expected(self) -> bool:
        """Say whether it fared as this kind of receiver does."""
        return self.tally.fate == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterResult:
    """Hold one chapter: its title, and a line for each receiver."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    Hold one row of the table.

    Attributes:
        ours: Whether nothing may be lost or doubled here.
        events_sent: Different events, each counted once however often it was delivered.
        tally: Of all invoices.
    """

    receiver: str
    ours: bool
    events_sent: int
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryResult:
    """
    Hold the whole story.

    Attributes:
        postgres: The server's version.
        rows: The table, ours first.
        seconds: How long it took, start of the server included.
    """

    postgres: str
    chapters: tuple[ChapterResult, ...]
    rows: tuple[Row, ...]
    seconds: float

    @property
    def ours_ok(self) -> bool:
        """Say whether ours lost and doubled nothing, and announced exactly what it booked."""
        ours = [row.tally for row in self.rows if row.ours]
        return all(each.lost == each.doubled == 0 and each.announced == each.booked for each in ours)

    @property
    def surprises(self) -> tuple[tuple[str, Line], ...]:
        """Give (chapter, line) wherever a receiver fared otherwise than it should."""
        return tuple(
            (chapter.title, line)
            for chapter in self.chapters
            for line in chapter.lines
            if not line.as_expected
        )

    @property
    def ok(self) -> bool:
        """Say whether ours is right and each of the others failed in its own way, in its own chapters."""
        return self.ours_ok and not self.surprises

    def as_json(self) -> dict[str, Any]:
        """Give it for programs; amounts in minor units."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "postgres": self.postgres,
            "receivers": [_row(row) for row in self.rows],
            "chapters": [
                {"title": chapter.title, "receivers": [_line(line) for line in chapter.lines]}
                for chapter in self.chapters
            ],
        }


def _row(row: Row) -> dict[str, Any]:
    tally = row.tally
    return {
        "receiver": row.receiver,
        "events_sent": row.events_sent,
        "payments": tally.due,
        "booked": tally.booked,
        "lost": tally.lost,
        "doubled": tally.doubled,
        "missing": tally.missing,
        "surplus": tally.surplus,
        "announced": tally.announced,
        "reviews": tally.reviews,
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "receiver": line.receiver,
        "answers": line.answers,
        "booked": line.tally.booked,
        "fate": line.tally.fate,
        "as_expected": line.as_expected,
    }
