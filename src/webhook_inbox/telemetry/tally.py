"""Count what leaves no row: duplicates, refusals and failures, until somebody takes the counts to the database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from webhook_inbox.model.count import Count
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome

OTHER = "(other)"
KINDS_MAX = 1_000
_REFUSED = frozenset({Outcome.REJECTED, Outcome.FAILED, Outcome.UNAVAILABLE})


def _nobody() -> None:
    """Tell nobody."""


class Tally:
    """
    Add up answers by endpoint, outcome and reason.

    Past ``KINDS_MAX`` different ones the rest is counted together as ``(other)`` (P-CALM).

    Concurrency: Any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[tuple[str, str, str]] = Counter()
        self._counted: Callable[[], None] = _nobody

    def tell(self, counted: Callable[[], None]) -> None:
        """Have *counted* called whenever something was; it must neither wait nor fail."""
        self._counted = counted

    def add(self, endpoint: str, receipt: Receipt) -> None:
        """Count one answer, if it is of those that leave no row."""
        duplicates = sum(result.outcome is Outcome.DUPLICATE for result in receipt.results)
        if duplicates:
            self._add(Count(endpoint, Outcome.DUPLICATE, "", duplicates))
        if receipt.outcome in _REFUSED:
            self._add(Count(endpoint, receipt.outcome, receipt.reason, 1))
        if duplicates or receipt.outcome in _REFUSED:
            self._counted()

    def __bool__(self) -> bool:
        """Say whether something was counted that nobody has taken."""
        return bool(self._numbers)

    def take(self) -> tuple[Count, ...]:
        """Give what was counted, and begin anew."""
        with self._lock:
            taken, self._numbers = self._numbers, Counter()
        return tuple(Count(*kind, number) for kind, number in taken.items())

    def give_back(self, counts: Iterable[Count]) -> None:
        """Count once more what was taken and could not be kept; it is told to nobody."""
        for count in counts:
            self._add(count)

    def _add(self, count: Count) -> None:
        kind = (count.endpoint, str(count.outcome), count.reason)
        with self._lock:
            if kind not in self._numbers and len(self._numbers) >= KINDS_MAX:
                kind = (OTHER, OTHER, OTHER)
            self._numbers[kind] += count.number
