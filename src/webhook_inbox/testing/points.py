"""
Stand at the fault points of an inbox: record those that a delivery passes, or die at one of them.

    recorder = PointRecorder()
    inbox = Inbox(dsn, probe=recorder)
    await inbox.receive("billing", headers=headers, body=body)
    for passing in recorder.passings: ...          # check_schema.begin.before#1, ..., record_one.commit.after#1

The points are not chosen but enumerated: one before and one after every step of every plan and every answer. A process
that dies by ``PointKiller`` ends by SIGKILL, as by ``kill -9``: nothing is flushed, closed or said.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Passing:
    """
    Name one passing of a fault point: ``record_batch.savepoint.before#2`` is the second.

    Attributes:
        point: As the probe is told it.
        nth: From 1.
    """

    point: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.point}#{self.nth}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read what ``str`` wrote.

        Raises:
            ValueError: *text* is no passing.
        """
        point, mark, nth = text.rpartition("#")
        if not (point and mark and nth.isdecimal() and int(nth)):
            raise ValueError(f"{text!r} is no fault point and number, such as record_one.commit.before#1")
        return cls(point, int(nth))


class PointRecorder:
    """Remember every fault point that is passed, in order, on whatever thread; a ``probe`` for ``Inbox``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._passings: list[Passing] = []

    def __call__(self, point: str) -> None:
        """Remember *point*."""
        with self._lock:
            self._counts[point] += 1
            self._passings.append(Passing(point, self._counts[point]))

    @property
    def passings(self) -> tuple[Passing, ...]:
        """Give what was passed since the start or the last ``take``."""
        with self._lock:
            return tuple(self._passings)

    def take(self) -> tuple[Passing, ...]:
        """Give what was passed, and begin to count anew."""
        with self._lock:
            taken = tuple(self._passings)
            self._counts.clear()
            self._passings.clear()
            return taken


class PointKiller:
    """
    Kill this process by SIGKILL where it is told to; a ``probe`` for ``Inbox``.

    Args:
        witness: A file to leave behind, written and synced before the signal: the process id and the passing, so that a
            test can tell this death from every other.
    """

    def __init__(self, witness: Path) -> None:
        self._witness = witness
        self._lock = threading.Lock()
        self._left = 0
        self._armed: Passing | None = None

    def arm(self, passing: Passing) -> None:
        """Die at *passing*, counted from now."""
        with self._lock:
            self._armed, self._left = passing, passing.nth

    def __call__(self, point: str) -> None:
        """Die here, if this is where."""
        with self._lock:
            if self._armed is None or self._armed.point != point:
                return
            self._left -= 1
            if self._left == 0:
                self._die(self._armed)

    def _die(self, passing: Passing) -> None:
        with self._witness.open("w", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {passing}\n")
            file.flush()
            os.fsync(file.fileno())
        os.kill(os.getpid(), signal.SIGKILL)
