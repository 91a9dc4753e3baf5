"""
What the lease model says of lease, token and clock, PostgreSQL does: random walks through the model are made by the
plans of real workers, and the two are compared after each move.

``make test`` takes a few walks, the same each time; ``WEBHOOK_INBOX_TEST_WALKS=5000`` takes that many.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import psycopg

from tests.property.lease_model import BEGIN, Move, Rules, State, moves
from tests.property.lease_replay import Stage, stage, wanted
from tests.property.walks import WALKS
from tests.schedules.stage import TABLES

RULES = Rules()
FEW, MOVES_EACH = 40, 24
#: So that a walk comes somewhere, and that who has lost a claim comes back while another has it.
WEIGHTS = {
    "tick": 0.3,
    "ask": 0.1,
    "renew": 0.2,
    "hear": 0.3,
    "die": 0.05,
    "fail": 0.1,
    "run": 0.2,
    "commit": 0.3,
    "begin": 4.0,
    "claim": 9.0,
    "reap": 9.0,
}


def test_postgresql_makes_the_moves_of_the_model(database: str, tally: Counter[str]) -> None:
    """Row, leases and effects are the model's after each; what it has no move for is refused (P-FENCE, P-CLOCK)."""
    made: Counter[str] = Counter()
    met: set[State] = set()
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(TABLES)
        for seed in range(WALKS or FEW):
            with stage(database, conn) as on:
                for move, state in walk(on, seed):
                    made[move.name] += 1
                    met.add(state)
    tally["moves of the lease model made on PostgreSQL"] += made.total()
    tally["states of the lease model met on PostgreSQL"] += len(met)
    assert made.keys() == WEIGHTS.keys()


def walk(on: Stage, seed: int) -> Iterator[tuple[Move, State]]:
    """Walk as *seed* has it, and compare; give each move with the state that it led to."""
    chance = random.Random(seed)
    on.begin()
    state, way = BEGIN, f"walk {seed}:"
    for _ in range(MOVES_EACH):
        offered = list(moves(state, RULES))
        ((move, after),) = chance.choices(offered, [WEIGHTS[each.name] for each, _ in offered])
        on.make(move, state)
        state, way = after, f"{way} {move.name}{'' if move.slot is None else move.slot}"
        on.refuse(state, RULES)
        assert on.found() == wanted(state), way
        yield move, state
        if state.row.state == "processed" and not any(worker.token for worker in state.workers):
            return
