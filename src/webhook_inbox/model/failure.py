"""
Describe an exception without what it says.

The text of an exception is made by whoever raised it and may quote the payload: a driver's error shows the offending
row, a handler's ``ValueError`` the value. Logs, answers and stored errors therefore carry the exception's type, its
SQLSTATE and constraint, and where it was raised: enough to find the line, nothing of the event (P-QUIET).
What we have raised ourselves is told whole: it holds no payload and no secret, and says what to do.
``inbox.on_error`` hands the exception itself to the user's code.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from webhook_inbox.errors import HandlerError, InboxError

_FRAMES_MAX = 12
_CAUSES_MAX = 5
_PACKAGE = Path(__file__).parents[1]
# Our rooms, but for the demo, which is a user.
_OURS = (
    *(f"{room}/" for room in _PACKAGE.iterdir() if room.is_dir() and room.name != "demo"),
    *(str(module) for module in _PACKAGE.glob("*.py")),
)
_CALLS_HANDLERS = str(_PACKAGE / "protocol" / "work.py")
# Those, whatever pip installed, Python's own library, and the constructors that dataclasses write.
_NOT_THE_USERS = (
    *_OURS,
    *(sysconfig.get_paths()[name] + "/" for name in ("purelib", "platlib", "stdlib")),
    "<frozen ",
    "<string>",
)
# Compiled by Cython, as parts of psycopg and asyncpg are: such a file is named as its authors had it.
_COMPILED = (".pyx", ".pxd", ".pxi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Hold what may be shown of an exception.

    Attributes:
        type: ``module.Class`` of the exception that started it.
        sqlstate: Five characters, or empty.
        constraint: Name of the violated constraint, or empty.
        frames: ``file:line function`` of the user's own code, outermost first, at most 12, the innermost kept; every
            frame where none is the user's; of a handler's failure, those from it on.
        text: What an error of ours says; empty where nothing is said that the rest does not tell.
    """

    type: str
    sqlstate: str = ""
    constraint: str = ""
    frames: tuple[str, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        """
        Give one line: ``psycopg.errors.UniqueViolation (SQLSTATE 23505, constraint ledger_once) at billing.py:42
        book_payment``; after a colon, what an error of ours says.
        """
        facts = [f"SQLSTATE {self.sqlstate}"] if self.sqlstate else []
        facts += [f"constraint {self.constraint}"] if self.constraint else []
        where = f" at {self.frames[-1]}" if self.frames else ""
        shown = f" ({', '.join(facts)})" if facts else ""
        said = f": {self.text}" if self.text else ""
        return f"{self.type}{shown}{where}{said}"


def describe(error: BaseException) -> Failure:
    """Give what may be shown of *error*; of an error of ours that wraps another, of the one it wraps."""
    root = error.__cause__ or error
    kind = type(root)
    causes = list(_causes(root))
    sqlstate = next((state for each in (*causes, error) if (state := getattr(each, "sqlstate", None))), "")
    constraint = next((name for each in causes if (name := _constraint(each))), "")
    return Failure(
        type=kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        sqlstate=sqlstate,
        constraint=constraint,
        frames=_shown(error, root),
        text=_said(error) or _said(root),
    )


def shown(error: BaseException) -> object:
    """Give what a log says of *error*: one of ours whole, of any other what may be shown."""
    return error if isinstance(error, InboxError) else describe(error)


def _said(error: BaseException) -> str:
    """Give what *error* says, where we have raised it: a user may put anything into one of ours, or derive from it."""
    if not isinstance(error, InboxError) or error.wraps or _is_users(_raised_in(error.__traceback__)):
        return ""
    return str(error)


def _raised_in(stack: TracebackType | None) -> str:
    """Give the file whose code has raised what *stack* is of; ours where nobody has."""
    if stack is None:
        return __file__
    while stack.tb_next is not None:
        stack = stack.tb_next
    return stack.tb_frame.f_code.co_filename


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from *error* to the driver's own, around which SQLAlchemy and Django put theirs."""
    for _ in range(_CAUSES_MAX):
        if error is None:
            return
        yield error
        error = error.__cause__


def _constraint(error: BaseException) -> str | None:
    """Give the constraint that psycopg's error names, or asyncpg's."""
    name: str | None = getattr(getattr(error, "diag", error), "constraint_name", None)
    return name


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Give the frames of *error* that are of the user's own code, outermost first."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]


def _shown(error: BaseException, root: BaseException) -> tuple[str, ...]:
    """
    Give the frames of the user's own code, which is where to look; all of them where there are none.

    A handler may have been installed by pip: of its failure, what comes below where we call it.
    """
    shown = users_frames(root)
    if not shown:
        shown = list(traceback.extract_tb(root.__traceback__))
        if isinstance(error, HandlerError):
            shown = _below_call(shown)
    told = tuple(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in shown)
    return told[-_FRAMES_MAX:]


def _below_call(stack: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Give what a handler did, from its own frame on; nothing where it had returned."""
    calls = [position for position, frame in enumerate(stack) if frame.filename == _CALLS_HANDLERS]
    below = stack[calls[-1] + 1 :] if calls else []
    return [frame for frame in below if not frame.filename.startswith(_OURS)]


def _is_users(file: str) -> bool:
    return not file.startswith(_NOT_THE_USERS) and not file.endswith(_COMPILED)
