"""
Run one plan on a connection that stops before every exchange with the server, until it is told to go on.

See ``stepping`` for how: the driver and the plan are those of production, and nothing of either is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from textwrap import shorten
from typing import Any, TypeVar

from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.errors import InboxError
from webhook_inbox.protocol.steps import (
    Begin,
    Commit,
    Plan,
    Release,
    Run,
    Savepoint,
    Step,
    Together,
    parts,
    step_name,
)
from webhook_inbox.testing.schedules.place import Place
from webhook_inbox.testing.schedules.schedule import Fault
from webhook_inbox.testing.schedules.stepping import Crashed, Line

T = TypeVar("T")
_ABANDON_SECONDS = 5.0
_STATEMENT_CHARS_MAX = 160


@dataclass(frozen=True, slots=True)
class Ending:
    """
    Say how an actor ended.

    Attributes:
        value: What its plan returned.
        error: What its plan raised; None where it returned, or crashed.
        crashed: Whether its process died, so that nobody heard of either.
    """

    value: Any = None
    error: BaseException | None = None
    crashed: bool = False

    def __str__(self) -> str:
        if self.crashed:
            return "crashed"
        return f"{type(self.error).__name__}: {self.error}" if self.error else f"returned {self.value!r}"


@dataclass(frozen=True, slots=True)
class Stop:
    """
    Say before which step an actor stands.

    Attributes:
        name: As of the step, or the handler's own statement.
        local: Whether it neither reads nor writes what another session can see, nor takes or frees a lock: ``BEGIN``
            and what prepares a transaction, ``SAVEPOINT`` and ``RELEASE``; ``seal_effect``, which looks at rows that
            its own transaction has locked and written. In READ COMMITTED each statement takes a snapshot of its own,
            so nothing is fixed by beginning earlier but ``now()``. Every other step is taken to conflict with every
            other: whatever a statement reads, a trigger touches or a lock collides with, cannot be missed.
        commits: Whether a COMMIT is sent.
    """

    name: str
    local: bool = False
    commits: bool = False

    @classmethod
    def before(cls, step: Step) -> Stop:
        """Describe the stop before *step*."""
        name = step_name(step)
        local = isinstance(step, Begin | Savepoint | Release) or name == "seal_effect"
        return cls(name, local, isinstance(step, Commit))


class Actor:
    """
    Hold one plan under way at a place of its own; it stands still unless it was told to ``go``.

    Args:
        place: Free; its connection is opened if need be.
        local: How statements of its handlers begin that are ``local``.

    Attributes:
        stop: Where it stands; None while it runs and once it has ended.
        ending: How it ended; None before.
        severed: Whether its connection was cut.
    """

    def __init__(self, place: Place, plan: Plan[Any], local: tuple[str, ...] = ()) -> None:
        self._local = local
        self.stop: Stop | None = None
        self.ending: Ending | None = None
        self.severed = False
        self._line: Line | None = None
        self._step: Step | None = None
        self._walked = False
        self._orders: SimpleQueue[Fault | None] = SimpleQueue()
        self._stops: SimpleQueue[Stop | None] = SimpleQueue()
        self._ended = place.start(lambda: self._main(place, plan))

    @property
    def pid(self) -> int:
        """Give the server's process that serves its connection; 0 before it has one."""
        return 0 if self._line is None else self._line.pid

    def go(self, fault: Fault | None = None) -> None:
        """Take the step before which it stands, as *fault* has it."""
        self.stop = None
        self._orders.put(fault)

    def stands(self, seconds: float) -> bool:
        """Wait for at most *seconds* until it stands before its next step, or has ended."""
        if self.stop is not None or self.ending is not None:
            return True
        try:
            self.stop = self._stops.get(timeout=seconds)
        except Empty:
            return False
        if self.stop is None:
            self._ended.result()
        return True

    def abandon(self) -> None:
        """Have it end wherever it is, as by a crash."""
        self._sever()
        self._orders.put(Fault.CRASH)
        wait({self._ended}, _ABANDON_SECONDS)

    def attach(self, line: Line) -> None:
        """Learn which connection it is on; see ``Gate``."""
        self._line = line

    def exchange(self, perform: Callable[[], Any], statement: str) -> Doing[Any]:
        """Perform an exchange with the server once the explorer has said so; called on the actor's thread."""
        stop = self._next_stop(statement)
        if stop is None:
            return (yield perform())
        self._stops.put(stop)
        match self._orders.get():
            case None:
                return (yield perform())
            case Fault.CUT:
                self._sever()
                return (yield perform())
            case Fault.LOST_REPLY:
                yield perform()
                raise self._gone().lost()
            case Fault.CRASH:
                self._gone()
                raise Crashed

    def _next_stop(self, statement: str) -> Stop | None:
        if self.severed:
            return None
        if isinstance(self._step, Run):
            text = shorten(statement, _STATEMENT_CHARS_MAX, placeholder=" ...") or "a statement"
            commits = text.upper().startswith(("COMMIT", "END"))
            return Stop(f"{self._step.name}: {text}", local=text.startswith(self._local), commits=commits)
        if self._step is not None:
            step, self._step = self._step, None  # some drivers have more than one exchange for it
            return Stop.before(step)
        # The driver rolls back what a plan left open; otherwise it only looks after its connection.
        left_open = self._walked and self._line is not None and self._line.in_transaction
        return Stop("rollback") if left_open else None

    def _sever(self) -> None:
        if self._line is not None and not self.severed:
            self._line.sever()
        self.severed = True

    def _gone(self) -> Line:
        """End the connection on both sides, and give it."""
        assert self._line is not None  # noqa: S101 - it has just asked
        self._sever()
        self._line.finish()
        return self._line

    def _main(self, place: Place, plan: Plan[Any]) -> None:
        try:
            ending = Ending(value=place.perform(self._stepping(plan), self))
        except Crashed:
            ending = Ending(crashed=True)
        except BaseException as error:  # noqa: BLE001 - whatever it raised is what the check is told
            ending = Ending(error=error)
        self.ending = ending
        self._stops.put(None)

    def _stepping(self, plan: Plan[T]) -> Plan[T]:
        """Note each step of *plan*, and take those apart that go together: other drivers send them one by one."""
        try:
            step = next(plan)
            while True:
                results: list[Any] = []
                try:
                    for part in parts(step):
                        self._step = part
                        results.append((yield part))
                except InboxError as error:
                    self._step = None
                    step = plan.throw(error)
                else:
                    self._step = None
                    step = plan.send(tuple(results) if isinstance(step, Together) else results[0])
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            self._step, self._walked = None, True
            plan.close()
