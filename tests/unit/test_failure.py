"""An exception is told by what it is and where it was raised, never by what it says (P-QUIET)."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import pytest

from webhook_inbox.drivers import failures
from webhook_inbox.errors import (
    HandlerFailedError,
    HandlerTimeoutError,
    InboxError,
    PayloadError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.failure import Failure, describe
from webhook_inbox.protocol import work

SECRET = "4242 4242 4242 4242"


class Diagnostics:
    """What a driver's error knows of a constraint."""

    constraint_name: str | None = "ledger_once"


class DriverError(Exception):
    """An error as a driver raises it: its text quotes the row."""

    sqlstate: str | None = "23505"
    diag: Any = Diagnostics()


class Outer:
    """Holds an error of its own, as libraries do."""

    class InnerError(Exception):
        """Is told with the class around it."""


def raised(error: BaseException, *, cause: BaseException | None = None) -> BaseException:
    """The error, with a traceback."""
    with pytest.raises(type(error)):
        raise error from cause
    return error


def deep(error: BaseException, depth: int) -> None:
    """Raise it, that many calls from here."""
    if depth:
        deep(error, depth - 1)
    raise error


def test_an_error_is_told_in_one_line() -> None:
    """Type, SQLSTATE, constraint, and the line that raised it."""
    failure = describe(raised(DriverError(SECRET)))
    assert (failure.type, failure.sqlstate, failure.constraint) == (
        f"{__name__}.DriverError",
        "23505",
        "ledger_once",
    )
    assert str(failure) == (
        f"{__name__}.DriverError (SQLSTATE 23505, constraint ledger_once) at {failure.frames[-1]}"
    )
    assert failure.frames[-1].startswith("test_failure.py:")
    assert failure.frames[-1].endswith(" raised")
    assert SECRET not in str(failure) + repr(failure)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (Failure(type="ValueError"), "ValueError"),
        (Failure(type="E", sqlstate="40001"), "E (SQLSTATE 40001)"),
        (Failure(type="E", constraint="c"), "E (constraint c)"),
        (Failure(type="E", frames=("a.py:1 f", "b.py:2 g")), "E at b.py:2 g"),
        (Failure(type="E", frames=("b.py:2 g",), text="do this"), "E at b.py:2 g: do this"),
    ],
)
def test_what_is_not_known_is_left_out(failure: Failure, line: str) -> None:
    """No empty brackets, no place that is none."""
    assert str(failure) == line


@pytest.mark.parametrize(("sqlstate", "diag"), [(None, None), (None, Diagnostics), ("", Diagnostics)])
def test_an_error_without_the_servers_word_has_none(
    sqlstate: Any, diag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken connection has neither."""
    monkeypatch.setattr(Diagnostics, "constraint_name", None)
    monkeypatch.setattr(DriverError, "sqlstate", sqlstate)
    monkeypatch.setattr(DriverError, "diag", diag)
    failure = describe(raised(DriverError()))
    assert (failure.sqlstate, failure.constraint) == ("", "")


def test_an_error_of_ours_is_told_by_what_it_wraps() -> None:
    """The wrapped one says where to look."""
    cause = raised(KeyError(SECRET))
    failure = describe(raised(HandlerFailedError("x"), cause=cause))
    assert (failure.type, failure.sqlstate) == ("KeyError", "")
    assert failure.frames == describe(cause).frames
    wrapped = describe(raised(StatementError("x", sqlstate="22012"), cause=cause))
    assert (wrapped.type, wrapped.sqlstate) == ("KeyError", "22012")
    assert describe(raised(StatementError("x", sqlstate="22012"))).sqlstate == "22012"


def ours(error: InboxError, *, cause: BaseException | None = None) -> BaseException:
    """The error as it is raised in one of our files."""
    code = compile("raise error from cause", str(Path(failures.__file__)), "exec")
    with pytest.raises(InboxError) as caught:
        exec(code, {"error": error, "cause": cause})  # noqa: S102 - a file of ours that raises what it is given
    return caught.value


def test_what_we_say_is_told_with_the_type_of_what_it_wraps() -> None:
    """A sentence of ours holds no payload, and is the remedy: it stands behind the place."""
    failure = describe(ours(TransactionEndedError("do this"), cause=raised(DriverError(SECRET))))
    assert (failure.type, failure.text) == (f"{__name__}.DriverError", "do this")
    assert str(failure).endswith(" raised: do this")
    assert SECRET not in str(failure)
    assert describe(ours(PayloadError("no JSON"))).text == "no JSON"
    assert describe(
        ours(HandlerFailedError("x failed", wraps=True), cause=ours(PayloadError("no JSON")))
    ).text == ("no JSON")


@pytest.mark.parametrize(
    "error",
    [
        raised(HandlerFailedError(SECRET)),
        raised(type("TheirsError", (HandlerFailedError,), {})(SECRET)),
        ours(HandlerFailedError("x failed", wraps=True), cause=raised(PayloadError(SECRET))),
    ],
    ids=["ours", "derived from ours", "within ours"],
)
def test_what_users_put_into_an_error_of_ours_is_withheld(error: BaseException) -> None:
    """P-QUIET: whoever raises it has written what it says, and may have quoted the payload."""
    assert describe(error).text == ""
    assert SECRET not in repr(describe(error))


def test_our_own_frames_are_told_of_a_defect_and_not_of_a_handlers_mistake() -> None:
    """Where no frame is the user's, those of a StoreError say where to look; a HandlerError's say nothing."""
    for kind, count in ((StoreUnavailableError, 1), (HandlerTimeoutError, 0)):
        error = ours(kind("x"))
        traceback = error.__traceback__
        assert traceback is not None
        assert len(describe(error.with_traceback(traceback.tb_next)).frames) == count


def test_a_handler_that_pip_installed_is_told_by_its_frames() -> None:
    """Nothing of it is the user's own by its place: what comes below the one that called it is."""
    library = sysconfig.get_paths()["purelib"]
    handler = compile("def book(): raise KeyError", f"{library}/shop/billing.py", "exec")
    ours_file = compile("def run(book): book()", work.__file__, "exec")
    names: dict[str, Any] = {}
    exec(handler, names)  # noqa: S102
    exec(ours_file, names)  # noqa: S102
    try:
        names["run"](names["book"])
    except KeyError as error:
        stack = error.__traceback__
        assert stack is not None
        cause = error.with_traceback(stack.tb_next)
    assert describe(raised(HandlerFailedError("x", wraps=True), cause=cause)).frames == ("billing.py:1 book",)
    assert describe(raised(StatementError("x"), cause=cause)).frames == (
        "work.py:1 run",
        "billing.py:1 book",
    )


def test_compiled_code_is_not_the_users() -> None:
    """Cython names a file as its authors had it, which is no path of this machine."""
    with pytest.raises(ValueError) as caught:
        exec(compile("raise ValueError", "library/protocol.pyx", "exec"), {})  # noqa: S102
    assert {frame.partition(":")[0] for frame in describe(caught.value).frames} == {"test_failure.py"}


@pytest.mark.parametrize(
    ("error", "name"), [(ValueError(), "ValueError"), (Outer.InnerError(), f"{__name__}.Outer.InnerError")]
)
def test_a_type_is_told_with_its_module_unless_it_is_pythons_own(error: Exception, name: str) -> None:
    """With the class around it."""
    assert describe(error).type == name


def test_an_error_that_was_never_raised_has_no_place() -> None:
    """It is told all the same."""
    assert describe(ValueError(SECRET)) == Failure(type="ValueError")


def test_the_innermost_twelve_frames_are_told() -> None:
    """The outermost first; files by their name, without the folders of whose machine it was."""
    try:
        deep(ValueError(), 30)
    except ValueError as error:
        failure = describe(error)
    assert len(failure.frames) == 12
    assert {frame.partition(":")[0] for frame in failure.frames} == {"test_failure.py"}
    assert {frame.rpartition(" ")[2] for frame in failure.frames} == {"deep"}
