"""Tell the story to a person: the talk on stderr as it happens, the table on stdout when it has happened."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook_inbox.demo.chapters import Chapter
from webhook_inbox.demo.receivers import Receiver
from webhook_inbox.demo.result import Line, Row, StoryResult
from webhook_inbox.demo.sender import Attempt
from webhook_inbox.demo.tally import Tally

NAME_WIDTH = 12
ANSWERS_WIDTH = 44
CENTS = 100
WIDTH = 80
HEADINGS = (
    "events\nsent",
    "payments\nmade",
    "payments\nbooked",
    "\nlost",
    "\ndoubled",
    "missing\nEUR",
    "too much\nEUR",
)


class Narrator:
    """
    Print the story in 80 columns; colours only where a person wants them.

    Args:
        quiet: Print nothing; for programs.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        # NO_COLOR means plain text to the rest of the command line; to Rich alone it would leave bold and dim.
        terminal = False if os.environ.get("NO_COLOR") else None
        self._talk = Console(
            stderr=True, quiet=quiet, highlight=False, soft_wrap=True, force_terminal=terminal
        )
        self._data = Console(quiet=quiet, highlight=False, force_terminal=terminal)

    def say(self, text: str = "", style: str = "") -> None:
        """Print a line of talk."""
        self._talk.print(Text(text, style))

    def open(self, receivers: Sequence[Receiver], postgres: str) -> None:
        """Say who hears the story, and what it runs on."""
        self.say("Stripe tells four receivers the same story, with the same crashes.", "bold")
        self.say(f"Each is a process of its own, and so is PostgreSQL {postgres}.")
        self.say()
        for receiver in receivers:
            self.say(f"  {receiver.name:<{NAME_WIDTH}} {receiver.does}")

    def open_later(self, receiver: Receiver) -> None:
        """Say that the others have no part in what follows."""
        self.say()
        self.say("After the 200: ours once more, with a queue. The others have none.", "bold")
        self.say()
        self.say(f"  {receiver.name:<{NAME_WIDTH}} {receiver.does}")

    def begin(self, number: int, chapter: Chapter) -> None:
        """Say what is about to be done."""
        self.say()
        self.say(f"{number}. {chapter.title}", "bold")
        for line in chapter.scene:
            self.say(f"   {line}", "dim")

    def tell(self, line: Line) -> None:
        """Say what one receiver answered, and what is in its ledger now."""
        text = Text(f"  {line.receiver:<{NAME_WIDTH}} {line.answers:<{ANSWERS_WIDTH}} ")
        text.append(
            fate_in_words(line.tally),
            "green" if line.tally.fate in {"booked once", "for review"} else "bold red",
        )
        self._talk.print(text)

    def show(self, result: StoryResult) -> None:
        """Print the table, and what it means."""
        self.say()
        self._data.print(_table(result.rows), width=WIDTH)
        self.say()
        if result.ok:
            self.say("Ours booked every payment once: event, work and record were one commit,", "green")
            self.say("in the request and in the worker alike.", "green")
            self.say("The others lost or doubled payments, though each of them looks right.")
            self.say("(One payment under two event ids is beyond any receiver: a unique key in")
            self.say("the ledger, which ours has and most have not, tells it.)")
        for chapter, line in result.surprises:
            self.say(f"{line.receiver}: {line.tally.fate}, should be {line.expected} ({chapter})", "bold red")
        if not result.ours_ok:
            self.say("Ours lost, doubled or announced something wrongly: a promise is broken.", "bold red")


def answers_in_words(rounds: Sequence[Sequence[Attempt]]) -> str:
    """Say what came of *rounds* of attempts, each made in the same moment: ``no answer, then 200 processed``."""
    said = []
    for words, same in itertools.groupby(_round_in_words(attempts) for attempts in rounds):
        times = len(list(same))
        said.append(words if times == 1 else f"{words} ({times} times)")
    return ", then ".join(said)


def _round_in_words(attempts: Sequence[Attempt]) -> str:
    counted = Counter(str(attempt) for attempt in attempts)
    if len(attempts) == 1:
        return next(iter(counted))
    return ", ".join(
        f"{times} x {answer}" for answer, times in sorted(counted.items(), key=lambda item: item[1])
    )


def fate_in_words(tally: Tally) -> str:
    """Say what the ledger holds of one payment."""
    match tally.fate:
        case "lost":
            return "NOT BOOKED, lost"
        case "doubled":
            return f"BOOKED {tally.booked} TIMES"
        case "booked once" | "for review":
            return tally.fate


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("\nreceiver", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        tally = row.tally
        table.add_row(
            row.receiver,
            str(row.events_sent),
            str(tally.due),
            str(tally.booked),
            _alarming(str(tally.lost), tally.lost),
            _alarming(str(tally.doubled), tally.doubled),
            _alarming(_euros(tally.missing), tally.missing),
            _alarming(_euros(tally.surplus), tally.surplus),
        )
    return table


def _alarming(text: str, number: int) -> Text:
    return Text(text, "bold red" if number else "green")


def _euros(cents: int) -> str:
    return f"{cents // CENTS}.{cents % CENTS:02}"
