"""Show what came of a round of deliveries: by file, by outcome, in all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from webhook_inbox.cli.deliver import Answer
from webhook_inbox.cli.output import counted, styled, table, tell, visible
from webhook_inbox.cli.payloads import Payload
from webhook_inbox.model.states import Outcome

_UNHANDLED_TYPES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    Hold one round of deliveries.

    Attributes:
        files: Each payload with the answers to its deliveries.
        seconds: How long the round took.
    """

    files: tuple[tuple[Payload, tuple[Answer, ...]], ...]
    seconds: float

    @classmethod
    def of(
        cls,
        payloads: Iterable[Payload],
        deliveries: Sequence[Payload],
        answers: Sequence[Answer],
        *,
        seconds: float,
    ) -> Self:
        """Gather the answers to *deliveries* by payload, in the order of *payloads*."""
        gathered: dict[int, list[Answer]] = {}
        for delivery, answer in zip(deliveries, answers, strict=True):
            gathered.setdefault(id(delivery), []).append(answer)
        return cls(files=tuple((each, tuple(gathered[id(each)])) for each in payloads), seconds=seconds)

    @property
    def answers(self) -> list[Answer]:
        """Give every answer."""
        return [answer for _, answers in self.files for answer in answers]

    @property
    def unacknowledged(self) -> int:
        """Count the deliveries that ended without a 2xx."""
        return sum(not answer.acknowledged for answer in self.answers)

    @property
    def all_acknowledged(self) -> bool:
        """Say whether the provider would be satisfied with all of it."""
        return self.unacknowledged == 0

    def facts(self) -> dict[str, Any]:
        """Give everything for a program."""
        return {
            "deliveries": len(self.answers),
            "unacknowledged": self.unacknowledged,
            "seconds": round(self.seconds, 6),
            "outcomes": [
                {"status": status, "outcome": outcome, "reason": reason, "deliveries": count}
                for (status, outcome, reason), count in self._outcomes()
            ],
            "files": [
                {
                    "file": payload.file,
                    "event_id": payload.event_id,
                    "bytes": len(payload.body),
                    "sha256": payload.digest,
                    "deliveries": [
                        {
                            "status": each.status,
                            "outcome": each.outcome,
                            "event_id": each.event_id,
                            "state": each.state,
                            "reason": each.reason,
                            "error": each.error,
                            "unhandled_type": each.unhandled_type,
                            "attempts": each.attempts,
                            "seconds": round(each.seconds, 6),
                        }
                        for each in answers
                    ],
                }
                for payload, answers in self.files
            ],
        }

    def show(self) -> None:
        """Print a line for each file, then the outcomes, then the sum."""
        folder = _common_folder(payload.file for payload, _ in self.files)
        if folder:
            tell(styled(f"in {visible(folder)}", "dim"))
        rows = [
            [
                payload.file.removeprefix(folder),
                payload.event_id or _told_id(answers) or "-",
                _summed(answers),
            ]
            for payload, answers in self.files
        ]
        for line in table(["file", "event", "outcome"], rows):
            tell(line)
        tell()
        sums = [
            ["-" if status is None else str(status), outcome or "-", reason or "-", str(count)]
            for (status, outcome, reason), count in self._outcomes()
        ]
        for line in table(["status", "outcome", "reason", "deliveries"], sums, numbers=[0, 3]):
            tell(line)
        tell()
        for error in dict.fromkeys(answer.error for answer in self.answers if answer.error):
            tell(visible(error))
        unhandled = Counter(answer.unhandled_type for answer in self.answers if answer.unhandled_type)
        for event_type, count in unhandled.most_common(_UNHANDLED_TYPES_MAX):
            tell(f"{counted(count, 'event')} ignored: no handler for {visible(event_type)}")
        tell(self._sum())

    def _outcomes(self) -> list[tuple[tuple[int | None, str, str], int]]:
        counts = Counter((answer.status, answer.outcome, answer.reason) for answer in self.answers)
        return sorted(counts.items(), key=lambda item: (item[0][0] or 0, *item[0][1:]))

    def _sum(self) -> str:
        total = len(self.answers)
        retries = sum(answer.attempts - 1 for answer in self.answers)
        again = f" and {counted(retries, 'retry', 'retries')}" if retries else ""
        pace = f"{self.seconds:.1f} s, {total / self.seconds:.{0 if total > 9 * self.seconds else 1}f}/s"
        verdict = (
            styled("all acknowledged", "green")
            if self.all_acknowledged
            else styled(f"{self.unacknowledged} not acknowledged", "red")
        )
        return (
            f"{counted(total, 'delivery', 'deliveries')} of {counted(len(self.files), 'file')}{again} "
            f"({pace}): {verdict}"
        )


def _common_folder(files: Iterable[str]) -> str:
    """Give the folder that all *files* are in, with its slash; empty for a single file or none in common."""
    folders = [os.path.dirname(file) for file in files]  # noqa: PTH120 - a path as it was given, not a tidied one
    try:
        shared = os.path.commonpath(folders) if len(folders) > 1 else ""
    except ValueError:  # absolute ones beside relative ones
        return ""
    return os.path.join(shared, "") if shared else ""  # noqa: PTH118 - for its slash


def _told_id(answers: Iterable[Answer]) -> str:
    """Give the id by which the receiver knows the event, where the provider sends it elsewhere than in ``id``."""
    return next((answer.event_id for answer in answers if answer.event_id), "")


def _summed(answers: Iterable[Answer]) -> str:
    """Give ``processed``, ``1 processed, 7 duplicate (now processed)``, ``400 rejected``, ``no connection``."""
    counts = Counter(_label(answer) for answer in answers)
    if len(counts) == 1 and counts.total() == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {label}" for label, count in counts.items())


def _label(answer: Answer) -> str:
    if answer.acknowledged and answer.outcome:
        known = answer.outcome == Outcome.DUPLICATE and answer.state
        return f"{answer.outcome} (now {answer.state})" if known else answer.outcome
    status = [str(answer.status)] if answer.status is not None else []
    return " ".join([*status, *([answer.outcome] if answer.outcome else [])])
