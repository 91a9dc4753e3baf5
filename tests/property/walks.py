"""Walk a state machine beside a database: a few walks, the same each time, or as many others as asked for."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

#: How many walks; not the same each time then.
WALKS = int(os.environ.get("WEBHOOK_INBOX_TEST_WALKS", "0"))
_FEW = 40
_STEPS = 60


class Walker(RuleBasedStateMachine):
    """
    Compare a model with the database after each step.

    Attributes:
        conn: To the database, in autocommit.
        tally: Where steps are counted.
        what: What is walked with.
    """

    conn: psycopg.Connection[Any]
    tally: Counter[str]
    what: str

    def __init__(self) -> None:
        super().__init__()
        self.tally[f"walks with {self.what}"] += 1

    def count(self, step: str) -> None:
        """Count a step."""
        self.tally[f"steps with {self.what}: {step}"] += 1


def walk(machine: type[Walker], conn: psycopg.Connection[Any], tally: Counter[str]) -> None:
    """Walk *machine* on *conn*, which holds our schema and ``effects``."""
    bound = type(machine.__name__, (machine,), {"conn": conn, "tally": tally})
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=WALKS or _FEW,
            stateful_step_count=_STEPS,
            derandomize=not WALKS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
