"""Say what came of asking a provider for what it has sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Tally:
    """
    Count the events of a provider's list that a handler is for.

    Attributes:
        seen: All of them.
        present: Those that were here, or came in meanwhile.
        recovered: Those that were not, and are now.
        failed: Those that could not be taken in; the next run tries again.
        out_of_reach: Those whose content the provider has not kept.
    """

    seen: int = 0
    present: int = 0
    recovered: int = 0
    failed: int = 0
    out_of_reach: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Add up."""
        return Tally(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Tally) -> Tally:
        """Take *other* away, which is a part of this."""
        return Tally(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Unfit:
    """Say why one event could not be taken in; never its content (P-QUIET)."""

    event_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """
    Say what came of one list.

    Attributes:
        account: Whose it is; empty: the key's own.
        since, until: Between these were the events that were asked for; None: nothing was asked. A run that goes on
            where another was interrupted ends where that one began; what is newer, the next one finds.
        tally: What was found, by the interrupted run too.
        found: What of it was found by this run.
        out_of_reach_seconds: How much more should have been asked for, and is older than the list reaches back.
        unfit: Some of the events that count as failed or out of reach.
        error: Why the list was not walked to its end; empty: it was.
        busy: Whether that is because another process is at it.
        goes_on: Whether that is only because it takes long: the next run goes on there, and need not be waited for.
    """

    account: str = ""
    since: datetime | None = None
    until: datetime | None = None
    tally: Tally = field(default_factory=Tally)
    found: Tally = field(default_factory=Tally)
    out_of_reach_seconds: float = 0.0
    unfit: tuple[Unfit, ...] = ()
    error: str = ""
    busy: bool = False
    goes_on: bool = False

    @property
    def good(self) -> bool:
        """Say whether everything that was asked for is here now."""
        tally = self.tally
        return not (self.error or tally.failed or tally.out_of_reach or self.out_of_reach_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """
    Say what came of asking for one endpoint.

    Attributes:
        endpoint: Its name.
        walks: One for each list.
    """

    endpoint: str
    walks: tuple[Walked, ...]

    @property
    def tally(self) -> Tally:
        """Add up the lists."""
        return sum((each.tally for each in self.walks), Tally())

    @property
    def found(self) -> Tally:
        """Add up what this run has found in the lists."""
        return sum((each.found for each in self.walks), Tally())

    @property
    def goes_on(self) -> bool:
        """Say whether the next run need not be waited for."""
        return any(each.goes_on for each in self.walks)

    @property
    def good(self) -> bool:
        """Say whether everything that was asked for is here now."""
        return all(each.good for each in self.walks)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRecord:
    """
    Say what is remembered of one list.

    Attributes:
        endpoint, account: Whose list it is.
        tally: Of the latest walk.
        since_seconds: How far back it reached; None: there was none.
        ended_seconds: Since it ended; None: none has.
        complete_seconds: Since the latest walk began after which everything was here; None: there was none.
        last_error: Why the latest one did not come to its end; empty: it did.
    """

    endpoint: str
    account: str
    tally: Tally
    since_seconds: float | None
    ended_seconds: float | None
    complete_seconds: float | None
    last_error: str

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Give what a row of ``list_reconciles`` says."""
        endpoint, account, *counts, since, ended, complete, last_error = row
        return cls(
            endpoint=endpoint,
            account=account,
            tally=Tally(*counts),
            since_seconds=since,
            ended_seconds=ended,
            complete_seconds=complete,
            last_error=last_error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """
    Say until when all that a provider lists for one endpoint is here, of every list that is still asked.

    Attributes:
        endpoint: Its name.
        seconds: How long ago that was, by the server's clock; None: it never was.
    """

    endpoint: str
    seconds: float | None

    @classmethod
    def of(cls, endpoint: str, records: Sequence[WalkRecord], *, asked_seconds: float) -> Self:
        """Tell by the *records* of the endpoint's lists; one not walked for *asked_seconds* counts where all are so."""
        ages = [each.complete_seconds for each in records if _is_asked(each, asked_seconds)]
        ages = ages or [each.complete_seconds for each in records]
        known = [age for age in ages if age is not None]
        return cls(endpoint=endpoint, seconds=max(known) if known and len(known) == len(ages) else None)


def _is_asked(record: WalkRecord, seconds: float) -> bool:
    return record.ended_seconds is None or record.ended_seconds < seconds
