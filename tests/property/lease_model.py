"""
Model lease, token and clock of one event, two workers and the reaper, small enough to look at every state there is.

Time is what is left: of a lease by the server's clock, and of a worker's trust in it by its own; a tick takes one off
each, so time goes on for ever in a few states. A worker renews in three moves, since its own clock may only be trusted
from before it asked: it notes the time, the server renews, the answer arrives, or does not. Each rule that keeps a
promise can be left out, to see that something breaks then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

LEASE = 1


class Row(NamedTuple):
    """The event, as it is committed."""

    state: str = "waiting"
    token: int = 0
    attempts: int = 0
    owner: int | None = None


class Worker(NamedTuple):
    """
    One of the two.

    Attributes:
        incarnation: Which lease is its own; None once it has died.
        token: Of its claim; 0 where it has none.
        working: Whether it has a transaction open in which it has settled the row, which is locked.
        asked: How much is left of what it has asked for, where the answer is out.
        trusts: For how long it takes its lease for granted, by its own clock.
    """

    incarnation: int | None
    token: int = 0
    working: bool = False
    asked: int | None = None
    trusts: int = LEASE


class State(NamedTuple):
    """
    All there is.

    Attributes:
        leases: How much is left of each incarnation's, by the server's clock.
        committed: The token of each effect that was committed.
        runs: How often a handler was begun.
    """

    row: Row
    workers: tuple[Worker, ...]
    leases: tuple[int, ...]
    committed: tuple[int, ...] = ()
    runs: int = 0

    def with_worker(self, slot: int, worker: Worker) -> State:
        """Give the state with one worker changed."""
        return self._replace(workers=(*self.workers[:slot], worker, *self.workers[slot + 1 :]))

    @property
    def locked(self) -> bool:
        """Whether a transaction holds the row."""
        return any(worker.working for worker in self.workers)


class Move(NamedTuple):
    """What happens, and to which worker; of the clock and the reaper it is nobody."""

    name: str
    slot: int | None = None


@dataclass(frozen=True)
class Rules:
    """
    What keeps the promises, and how far to look.

    Attributes:
        fenced: Who settles names the token and the incarnation of its claim.
        lock_respected: The reaper passes over a row that a transaction holds.
        counted_first: The attempt is counted with the claim, and not with the mark.
        trusted_from_asking: A lease is trusted from when it was asked for, and not from the answer on.
        claims_checked: Nobody claims under a lease that has ended.
        incarnations: How many there are in all.
        claims: How many, too.
    """

    fenced: bool = True
    lock_respected: bool = True
    counted_first: bool = True
    trusted_from_asking: bool = True
    claims_checked: bool = True
    incarnations: int = 3
    claims: int = 3


BEGIN = State(Row(), (Worker(0), Worker(1)), (LEASE, LEASE))


def moves(state: State, rules: Rules) -> Iterator[tuple[Move, State]]:
    """Give each move that there is in *state*, and what it leads to."""
    yield Move("tick"), _later(state)
    row = state.row
    if row.state == "leased" and _reapable(state, rules):
        yield Move("reap"), state._replace(row=row._replace(state="retrying", owner=None))
    for slot, worker in enumerate(state.workers):
        if worker.incarnation is None:
            if len(state.leases) < rules.incarnations:
                begun = Worker(len(state.leases))
                leases = (*state.leases, LEASE)
                yield Move("begin", slot), state.with_worker(slot, begun)._replace(leases=leases)
            continue
        yield Move("die", slot), state.with_worker(slot, Worker(None, trusts=0))
        for name, after in (*_renewals(state, worker, slot, rules), *_work(state, worker, slot, rules)):
            yield Move(name, slot), after


def _later(state: State) -> State:
    workers = tuple(
        worker._replace(
            asked=None if worker.asked is None else max(0, worker.asked - 1), trusts=max(0, worker.trusts - 1)
        )
        for worker in state.workers
    )
    return state._replace(workers=workers, leases=tuple(max(0, left - 1) for left in state.leases))


def _reapable(state: State, rules: Rules) -> bool:
    assert state.row.owner is not None
    return not state.leases[state.row.owner] and not (state.locked and rules.lock_respected)


def _renewals(state: State, worker: Worker, slot: int, rules: Rules) -> Iterator[tuple[str, State]]:
    assert worker.incarnation is not None
    if worker.asked is None:
        yield "ask", state.with_worker(slot, worker._replace(asked=LEASE))
        return
    renewed = tuple(LEASE if at == worker.incarnation else left for at, left in enumerate(state.leases))
    yield "renew", state._replace(leases=renewed)
    if state.leases[worker.incarnation] >= worker.asked:  # the server has renewed it since
        trusted = worker.asked if rules.trusted_from_asking else LEASE
        yield "hear", state.with_worker(slot, worker._replace(asked=None, trusts=max(worker.trusts, trusted)))


def _work(state: State, worker: Worker, slot: int, rules: Rules) -> Iterator[tuple[str, State]]:
    row = state.row
    assert worker.incarnation is not None
    if worker.working:
        settled = row._replace(
            state="processed", owner=None, attempts=row.attempts + (not rules.counted_first)
        )
        done = state.with_worker(slot, worker._replace(working=False, token=0))
        yield "commit", done._replace(row=settled, committed=(*state.committed, worker.token))
        return
    if not worker.token:
        leased = bool(state.leases[worker.incarnation]) or not rules.claims_checked
        if row.state in {"waiting", "retrying"} and leased and row.token < rules.claims:
            claimed = Row("leased", row.token + 1, row.attempts + rules.counted_first, worker.incarnation)
            yield "claim", state.with_worker(slot, worker._replace(token=claimed.token))._replace(row=claimed)
        return
    held = row.state == "leased" and (
        not rules.fenced or (row.token == worker.token and row.owner == worker.incarnation)
    )
    lost = state.with_worker(slot, worker._replace(token=0))
    if not held:
        yield "run", lost
        yield "fail", lost
    elif not state.locked:
        yield "run", state.with_worker(slot, worker._replace(working=True))._replace(runs=state.runs + 1)
        yield "fail", lost._replace(row=row._replace(state="retrying", owner=None))


def broken(before: State, move: Move, after: State) -> str:
    """Say which promise *move* breaks; empty where it breaks none."""
    if len(after.committed) != len(set(after.committed)) or len(after.committed) > 1:
        return "P-ONCE: two commits"
    if move.name == "commit" and after.committed[-1] != before.row.token:
        return "P-FENCE: committed by who had lost the claim"
    if after.runs > after.row.attempts:
        return "P-COUNT: a run that was not counted"
    if after.row.token < before.row.token:
        return "P-FENCE: a token was given back"
    if move.name == "claim" and move.slot is not None:
        incarnation = before.workers[move.slot].incarnation
        if incarnation is None or not before.leases[incarnation]:
            return "P-CLOCK: claimed under a lease that has ended"
    for worker in after.workers:
        if worker.incarnation is not None and worker.trusts > after.leases[worker.incarnation]:
            return "P-CLOCK: a lease is trusted that has ended"
    return ""


@dataclass(frozen=True)
class Found:
    """
    Every state that can be reached.

    Attributes:
        parents: Each state with the move and the state that first led to it; nothing before the first.
        broken: The first promise that a move breaks, with the moves up to it; empty where none does.
        moved: How many moves were tried.
        after: The states that each one leads to.
    """

    parents: dict[State, tuple[Move, State] | None]
    broken: tuple[str, tuple[Move, ...]] | None
    moved: int
    after: dict[State, list[State]]

    def way(self, state: State) -> tuple[Move, ...]:
        """Give the moves that lead to *state*: as few as can be."""
        taken: list[Move] = []
        while (step := self.parents[state]) is not None:
            taken.append(step[0])
            state = step[1]
        return tuple(reversed(taken))


def explore(rules: Rules) -> Found:
    """Look at every state that *rules* lead to, the nearest first, until a promise breaks."""
    found = Found({BEGIN: None}, None, 0, {})
    waiting = deque([BEGIN])
    moved = 0
    while waiting:
        state = waiting.popleft()
        found.after[state] = []
        for move, after in moves(state, rules):
            moved += 1
            found.after[state].append(after)
            if reason := broken(state, move, after):
                return replace(found, broken=(reason, (*found.way(state), move)), moved=moved)
            if after not in found.parents:
                found.parents[after] = (move, state)
                waiting.append(after)
    return replace(found, moved=moved)
