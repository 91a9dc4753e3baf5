"""A handler is called with what it takes, on the loop or on a thread, and has done its work when it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.arrivals import SCHEMA, arrival
from tests.fixtures.plans import play
from tests.unit.test_tx import LoopSession, Session
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.handlers import Handler, Pattern
from webhook_inbox.protocol.steps import Run
from webhook_inbox.protocol.work import HandlerWork, Subject, names, run_handlers
from webhook_inbox.sql.statements import Statements

SQL = Statements.of(SCHEMA)
EVENT = arrival().event(received_at=None, attempt=1)
EVENTS = {EVENT.key: (EVENT, 7)}


def work_of(function: Callable[..., Any], *arguments: Any, kind: Any = "sync") -> HandlerWork:
    """The work of a handler."""
    return HandlerWork(
        Handler(Pattern("*"), function, kind, "billing.book"), arguments or (EVENT,), EVENTS, SQL
    )


def test_a_handler_is_called_with_its_tx_and_what_it_takes() -> None:
    """The Tx is the session's; the transaction is given up when it returns."""
    seen: list[Any] = []
    session = Session()

    def handler(tx: Any, event: Any, more: Any) -> None:
        seen.append((tx, event, more, tx.conn))
        tx.review("look")

    work = work_of(handler, EVENT, "prepared")
    assert not work.reviews
    assert work(session) is None
    ((tx, event, more, conn),) = seen
    assert (event, more, conn) == (EVENT, "prepared", session.conn)
    (review,) = work.reviews
    assert review.summary == "look"
    assert session.asked[0][1]["inbox_id"] == 7
    with pytest.raises(HandlerFailedError, match=r"^billing\.book used its tx"):
        _ = tx.conn


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_handler_raises_goes_through_and_its_tx_is_given_up(kind: str) -> None:
    """It is for the driver to name; reviews until then are remembered."""
    kept: list[Any] = []

    def raises(tx: Any, event: Any) -> None:
        kept.append(tx)
        raise KeyError("x")

    async def raises_async(tx: Any, event: Any) -> None:
        raises(tx, event)

    work = work_of(raises if kind == "sync" else raises_async, kind=kind)
    with pytest.raises(KeyError):
        run(work, kind)
    with pytest.raises(HandlerFailedError):
        _ = kept[0].conn


def run(work: HandlerWork, kind: str) -> None:
    """Do the work on a session of its kind."""
    if kind == "sync":
        assert work(Session()) is None
    else:
        asyncio.run(work(LoopSession()))


async def coroutine() -> None:
    """Nothing."""


def generator() -> Any:
    """Nothing."""
    yield


async def async_generator() -> Any:
    """Nothing."""
    yield


class Awaitable:
    """Something else that would have to be awaited."""

    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize(
    "returned", [coroutine, generator, async_generator, Awaitable], ids=lambda made: made.__name__
)
def test_work_that_is_only_promised_is_refused_on_a_thread(returned: Callable[[], Any]) -> None:
    """P-ONCE: nobody would run it; a coroutine is closed, so that nothing warns of it later."""
    with pytest.raises(
        HandlerFailedError,
        match=rf"^billing\.book returned a {returned.__name__} that nobody would run; write it",
    ):
        run(work_of(lambda tx, event: returned()), "sync")


@pytest.mark.parametrize("returned", [generator, async_generator], ids=lambda made: made.__name__)
def test_work_that_is_only_promised_is_refused_on_a_loop(returned: Callable[[], Any]) -> None:
    """P-ONCE: also where it comes out of what was awaited."""

    async def handler(tx: Any, event: Any) -> Any:
        return returned()

    with pytest.raises(HandlerFailedError, match="nobody would run"):
        run(work_of(handler, kind="async"), "async")


@pytest.mark.parametrize("returned", [Ignore, GiveUp("x"), NotYet, NotYet("x")], ids=repr)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_verdict_that_is_returned_is_refused(kind: str, returned: Any) -> None:
    """P-ONCE: it would be taken for success."""

    async def handler(tx: Any, event: Any) -> Any:
        return returned

    work = work_of((lambda tx, event: returned) if kind == "sync" else handler, kind=kind)
    with pytest.raises(
        HandlerFailedError, match=r"^billing\.book returned Ignore, GiveUp or NotYet; raise it instead$"
    ):
        run(work, kind)


@pytest.mark.parametrize("returned", [None, 7, "x", ValueError, object], ids=repr)
@pytest.mark.parametrize("kind", ["sync", "async", "async without await"])
def test_anything_else_that_is_returned_does_not_matter(kind: str, returned: Any) -> None:
    """A decorator may well make a plain function of an ``async def``."""

    async def handler(tx: Any, event: Any) -> Any:
        return returned

    run(
        work_of(handler if kind == "async" else lambda tx, event: returned, kind=kind.split(maxsplit=1)[0]),
        kind.split(maxsplit=1)[0],
    )


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_message_that_nobody_awaited_is_noticed_when_the_handler_returns() -> None:
    """P-OUT: named, before anything is committed."""

    async def forgets(tx: Any, event: Any) -> None:
        _ = tx.emit("Booked", {})

    with pytest.raises(HandlerFailedError, match="without await"):
        run(work_of(forgets, kind="async"), "async")


def test_a_def_handler_with_a_loops_session_is_noticed() -> None:
    """P-OUT: a ``def`` cannot await what its Tx gives; it must not pass for done."""
    given: list[Any] = []
    work = work_of(lambda tx, event: given.append(tx.emit("Booked", {})))
    with pytest.raises(HandlerFailedError, match="without await"):
        work(LoopSession())
    asyncio.run(given[0])


def test_handlers_are_run_in_order_with_what_each_takes() -> None:
    """The event, a list of it where the handler is set-based, and what its own prepare stage gave."""
    seen: list[Any] = []

    def taking(name: str) -> Callable[..., Any]:
        return lambda tx, *arguments: seen.append((name, arguments))

    handlers = (
        Handler(Pattern("*"), taking("plain"), "sync", "plain"),
        Handler(Pattern("*"), taking("prepared"), "sync", "prepared", prepare=print),
        Handler(Pattern("*"), taking("set"), "sync", "set", batch=True),
    )
    subject = Subject(event=EVENT, inbox_id=7, handlers=handlers, prepared=("a", "b", "c"))
    played = play(run_handlers(subject, seconds_max=12.0, sql=SQL))
    for step in played.steps:
        assert isinstance(step, Run)
        assert step.seconds_max == 12.0
        step.work(Session())
    assert [step.name for step in played.steps] == ["plain", "prepared", "set"]
    assert seen == [("plain", (EVENT,)), ("prepared", (EVENT, "b")), ("set", ([EVENT],))]
    assert played.value == (None, ())


def test_names_are_told_once_each() -> None:
    """In the order of their first run."""
    assert names([Handler(Pattern("*"), print, "sync", name) for name in ("b", "a", "b")]) == "b, a"
