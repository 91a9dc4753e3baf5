"""Write a schedule as a short text, and read it again: ``A A B! A``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Self


class Fault(Enum):
    """
    Say what befalls an actor at its next step; the value is its mark in the text.

    Attributes:
        CRASH: The process dies before the step: its connection ends without a word, and nothing of the plan runs on.
        CUT: The connection is cut before the step; the plan meets the error, and runs on.
        LOST_REPLY: The server performs the step, and the connection is cut before the answer arrives.
    """

    CRASH = "!"
    CUT = "/"
    LOST_REPLY = "?"


ALL_FAULTS = frozenset(Fault)


@dataclass(frozen=True, slots=True)
class Move:
    """
    Let one actor take its next step.

    Attributes:
        actor: Its position among the plans; ``A`` is 0.
        fault: What befalls it there.
    """

    actor: int
    fault: Fault | None = None

    def __str__(self) -> str:
        return chr(ord("A") + self.actor) + (self.fault.value if self.fault else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read what ``str`` wrote.

        Raises:
            ValueError: *text* is no move.
        """
        if len(text) not in {1, 2} or not "A" <= text[0] <= "Z":
            raise ValueError(f"{text!r} is no move, such as A, B!, B/ or B?")
        return cls(ord(text[0]) - ord("A"), Fault(text[1]) if text[1:] else None)


@dataclass(frozen=True, slots=True)
class Schedule:
    """
    Say in which order actors take their steps.

    Where it ends before they do, whoever moved last goes on until it has ended or waits, then the first that can. So
    the empty schedule is a whole one, too: one plan after the other. Steps that concern nobody else are not in it.
    """

    moves: tuple[Move, ...] = ()

    def __iter__(self) -> Iterator[Move]:
        return iter(self.moves)

    def __len__(self) -> int:
        return len(self.moves)

    def __str__(self) -> str:
        return " ".join(str(move) for move in self.moves)

    def then(self, move: Move) -> Schedule:
        """Give this schedule with one move more."""
        return Schedule((*self.moves, move))

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read what ``str`` wrote.

        Raises:
            ValueError: *text* is no schedule.
        """
        return cls(tuple(Move.parse(each) for each in text.split()))
