"""
Say in plain Python what becomes of events, whatever is done with them: what the database is compared with.

Time is counted down: minutes until an event is due, minutes until it is given up, days since it was received.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set as AbstractSet
from dataclasses import dataclass, field

from webhook_inbox.model.claim import Claim
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.operate import Action

ATTEMPTS_MAX = 4
CRASHES_MAX = 2
RETRY_MINUTES = 5
PAYLOAD_DAYS, KEY_DAYS = 10, 20
DUE = (State.WAITING, State.RETRYING)
SETTLED = (State.PROCESSED, State.IGNORED)


@dataclass
class Row:
    """One event, as its row and what belongs to it should be."""

    event_id: str
    state: State
    body: bytes
    origin: Origin = Origin.DELIVERY
    order_key: str | None = None
    identified: bool = True
    attempts: int = 0
    claims: int = 0
    crashes: int = 0
    solitary: bool = False
    worker: int | None = None
    due_in: int = 0
    give_up_in: int | None = None
    kept: bool = True
    days: int = 0
    processed_days: int | None = None
    other_bodies: set[bytes] = field(default_factory=set)
    reviews: int = 0

    def settle(self, state: State) -> None:
        """End a run, with its effect or by a verdict."""
        self.state, self.worker, self.solitary = state, None, False
        self.processed_days = 0 if state is State.PROCESSED else None
        if state is State.DEAD:
            self.due_in = 0

    def fail(self, *, costs_attempt: bool, retry_in: int) -> None:
        """End a run that came to nothing."""
        self.give_up_in = RETRY_MINUTES if self.give_up_in is None else self.give_up_in
        dead = self.give_up_in <= 0 or (costs_attempt and self.attempts >= ATTEMPTS_MAX)
        self.attempts -= not costs_attempt
        self.state, self.worker, self.due_in = State.DEAD, None, 0
        if not dead:
            self.state, self.due_in = State.RETRYING, retry_in

    def give_back(self) -> None:
        """Give a claim back unrun."""
        fresh = self.give_up_in is None and self.crashes == 0
        self.state, self.worker, self.due_in = State.WAITING if fresh else State.RETRYING, None, 0
        self.attempts -= 1

    def crash(self, *, blamed: bool) -> None:
        """Take it back from a worker whose lease has ended."""
        self.crashes += blamed
        self.attempts -= not blamed
        self.solitary |= blamed
        self.state = State.DEAD if blamed and self.crashes >= CRASHES_MAX else State.RETRYING
        self.worker, self.due_in = None, 0


@dataclass
class Lease:
    """A worker's."""

    alive: bool = True
    stopped: bool = False


@dataclass
class Inbox:
    """
    All events, and what they have come to.

    Attributes:
        rows: By event id, in the order of arrival.
        effects: How often each event has had its effect, also one whose key was forgotten since.
        leases: By worker.
        audited: How many entries the audit has.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    leases: dict[int, Lease] = field(default_factory=dict)
    audited: int = 0

    def held(self, claim: Claim) -> Row | None:
        """Give the row of *claim*, if the claim is still good (P-FENCE)."""
        row = self.rows.get(claim.event.id)
        good = row and (row.state, row.claims, row.worker) == (State.LEASED, claim.token, claim.worker_id)
        return row if good else None

    def claimable(self, worker: int) -> list[Row]:
        """Give what *worker* may claim: of an order key its head, while nothing of the key runs or holds it dead."""
        if not self.leases[worker].alive:
            return []
        return [
            row for row in self.rows.values() if row.state in DUE and row.due_in <= 0 and self._heads(row)
        ]

    def _heads(self, row: Row) -> bool:
        mates = [each for each in self.rows.values() if row.order_key and each.order_key == row.order_key]
        older = mates[: mates.index(row)] if mates else []
        return not any(each.state is State.LEASED for each in mates) and not any(
            each.state in {*DUE, State.DEAD} for each in older
        )

    def claim(self, claims: Iterable[Claim]) -> None:
        """Lease what was claimed; the attempt counts (P-COUNT)."""
        for each in claims:
            row = self.rows[each.event.id]
            row.state, row.worker = State.LEASED, each.worker_id
            row.claims += 1
            row.attempts += 1

    def reap(self) -> None:
        """Take back what the dead hold; an event that ran alone had not begun where others were held beside it."""
        gone = {worker for worker, lease in self.leases.items() if not lease.alive}
        held = [row for row in self.rows.values() if row.state is State.LEASED and row.worker in gone]
        beside = Counter(row.worker for row in held)
        for row in held:
            assert row.worker is not None
            lonely = row.solitary and beside[row.worker] > 1
            row.crash(blamed=not self.leases[row.worker].stopped and not lonely)

    def operate(self, action: Action, meant: AbstractSet[str]) -> int:
        """Have an operator do *action* with the events of these ids; give how many it changes."""
        changed = [row for row in self.rows.values() if row.event_id in meant and self._meant(action, row)]
        for row in changed:
            stays = row.state is State.WAITING and action.to is State.RETRYING
            row.state = State.WAITING if stays else action.to
            row.due_in, row.give_up_in, row.crashes, row.worker, row.processed_days = 0, None, 0, None, None
            row.origin = action.origin or row.origin
        self.audited += len(changed)
        return len(changed)

    @staticmethod
    def _meant(action: Action, row: Row) -> bool:
        runnable = row.kept and row.identified
        return row.state in action.states and (runnable or not action.runs)

    def pass_minutes(self, minutes: int) -> None:
        """Let time pass for what has something before it."""
        for row in self.rows.values():
            if row.state in {*DUE, State.LEASED, State.DEAD}:
                row.due_in -= minutes
                row.give_up_in = None if row.give_up_in is None else row.give_up_in - minutes

    def pass_days(self, days: int) -> None:
        """Let events grow old."""
        for row in self.rows.values():
            row.days += days
            row.processed_days = None if row.processed_days is None else row.processed_days + days

    def prune(self) -> tuple[int, int]:
        """Forget bytes, then keys (P-KEEP); give how many of each."""
        settled = [row for row in self.rows.values() if row.state in SETTLED and not row.reviews]
        bodies = [row for row in settled if row.kept and row.days >= PAYLOAD_DAYS]
        for row in bodies:
            row.kept = False
        old = [row for row in settled if min(self._ages(row)) >= KEY_DAYS]
        for row in old:
            del self.rows[row.event_id]
        return len(bodies), len(old)

    @staticmethod
    def _ages(row: Row) -> Iterator[int]:
        yield row.days
        if row.processed_days is not None:
            yield row.processed_days
