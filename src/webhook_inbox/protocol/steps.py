"""
Name the steps that a plan may ask for.

A plan is a generator: it yields a step and receives its result, or has the step's error thrown into it. It
never touches a socket, so it is written once for every driver, sync and async alike, and a test can run it
step by step (design of psycopg's own ``generators.py`` and ``waiting.py``).

    driver                          plan
      │ ── next() ─────────────────► │
      │ ◄───────── Begin(...) ────── │      BEGIN; READ COMMITTED
      │ ── row ────────────────────► │
      │ ◄───────── One(sql, ...) ─── │
      │ ── row or None ────────────► │
      │ ◄───────── Commit() ──────── │      believed only if the server's tag says COMMIT (P-ONCE)
      │ ── None ───────────────────► │
      │ ◄───────── return value ──── │

A plan that ends in any way with its transaction still open is rolled back by the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from webhook_inbox.sql.statements import Statement

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object]
NO_PARAMS: Params = {}


class Session(Protocol):
    """
    What a driver hands to the work of a ``Run`` step.

    Attributes:
        conn: The driver's own connection, inside the plan's transaction.
        ended: How many of our own statements have ended, well or not; tells an ``emit`` that nobody awaited.
    """

    @property
    def conn(self) -> Any: ...  # noqa: ANN401, D102 - each driver has its own
    @property
    def ended(self) -> int: ...  # noqa: D102
    def execute(self, statement: Statement, params: Params) -> Any:  # noqa: ANN401
        """Run one of our statements on ``conn``: a row or None, or an awaitable of it with an async driver."""
        ...


@dataclass(frozen=True, slots=True)
class Begin:
    """
    Open a READ COMMITTED transaction and prepare it with *statement*; gives its row.

    Attributes:
        seconds_max: How long a step of it may take; past that and a grace its connection is given up. None: as long as
            it likes.
    """

    statement: Statement
    params: Params = field(default_factory=dict)
    seconds_max: float | None = None


@dataclass(frozen=True, slots=True)
class One:
    """Run *statement*; gives its first row, or None."""

    statement: Statement
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class All:
    """Run *statement*; gives every row."""

    statement: Statement
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """Run several statements of a migration, without parameters, inside the open transaction."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """
    Run the user's code on the open transaction.

    Gives a ``Steering`` that it raised, or None; anything else it raises is thrown into the plan as a
    ``HandlerError``, or as a ``StoreError`` where the database is to blame.

    Attributes:
        name: The handler's qualified name, for fault points and logs.
        work: Called with the driver's session; returns an awaitable with an async driver.
        seconds_max: How long it may take.
        pipeline: Whether its statements are sent without waiting for the answer of each, where the driver can.
    """

    name: str
    work: Callable[[Session], Any]
    seconds_max: float
    pipeline: bool = False


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Start a part of the transaction that can be undone alone."""


@dataclass(frozen=True, slots=True)
class RollbackTo:
    """Undo everything since the latest savepoint, and forget it."""


@dataclass(frozen=True, slots=True)
class Release:
    """Keep everything since the latest savepoint, and forget it."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit; raises ``TransactionEndedError`` unless the server's tag says COMMIT (P-ACK, P-ONCE)."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Roll back."""


@dataclass(frozen=True, slots=True)
class Together:
    """
    Perform *steps* in their order, in one round trip where the driver can; gives the tuple of their results.

    The first that fails ends it: its error is thrown, and the server performs none of the later ones.

    Attributes:
        steps: Any but Script, Run and Together.
    """

    steps: tuple[Step, ...]


Step: TypeAlias = (
    Begin | One | All | Script | Run | Savepoint | RollbackTo | Release | Commit | Rollback | Together
)
T = TypeVar("T")
Plan: TypeAlias = Generator[Step, Any, T]


def parts(step: Step) -> tuple[Step, ...]:
    """Give the steps that *step* is made of."""
    return step.steps if isinstance(step, Together) else (step,)


def step_name(step: Step) -> str:
    """Name *step* for fault points and schedules: ``begin``, ``record_event``, ``run``, ``commit``, ..."""
    match step:
        case One(statement) | All(statement):
            return statement.name
        case Script(name):
            return name
        case RollbackTo():
            return "rollback_to"
        case _:
            return type(step).__name__.lower()
