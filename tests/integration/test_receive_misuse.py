"""A handler whose work was never done is a failure by name; no event is processed without its effect (P-ONCE)."""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.fixtures.receiving import Bench, books
from webhook_inbox import Outcome
from webhook_inbox.drivers import psycopg_flight
from webhook_inbox.errors import TransactionEndedError
from webhook_inbox.protocol.steps import Commit

Steps: TypeAlias = Generator[Any, Any, None]


async def books_async(tx: Any, event: Any) -> None:
    """Write one effect."""
    await tx.conn.execute("INSERT INTO effect VALUES (%s)", [event.id])


def books_sync(tx: Any, event: Any) -> None:
    """Write one effect."""
    tx.conn.execute("INSERT INTO effect VALUES (%s)", [event.id])


def forgets_await(tx: Any, event: Any) -> Any:
    """Return a coroutine that nobody asked for."""
    return books_async(tx, event)


def has_yield(tx: Any, event: Any) -> Any:
    """Return a generator that nobody iterates over."""
    return (tx.conn.execute("INSERT INTO effect VALUES ('x')") for _ in range(1))


@pytest.mark.parametrize("open_bench", ["thread", "loop and threads"], indirect=True)
@pytest.mark.parametrize("mistake", [forgets_await, has_yield])
def test_a_def_handler_that_only_promises_its_work_fails(bench: Bench, mistake: Callable[..., Any]) -> None:
    """A coroutine or generator that comes back would never have run; nothing is stored, and nothing warns later."""
    bench.endpoint().on("*")(mistake)
    receipt = bench.deliver("evt_1")
    assert (receipt.status, receipt.reason) == (500, "handler_failed")
    assert (bench.events(), bench.effects()) == ([], [])
    gc.collect()


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap *function* as a logging decorator does."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@dataclass
class Books:
    """A handler that is an object; equal to every other of its kind, and so not hashable."""

    async def __call__(self, tx: Any, event: Any) -> None:
        await books_async(tx, event)


class BooksOnThread(Books):
    """The same for threads."""

    def __call__(self, tx: Any, event: Any) -> Any:
        books_sync(tx, event)


def extra(extra: int, tx: Any, event: Any) -> Any:
    """A handler that is made with functools.partial."""
    books_sync(tx, event)


async def extra_async(extra: int, tx: Any, event: Any) -> None:
    """A handler that is made with functools.partial."""
    await books_async(tx, event)


@pytest.mark.parametrize("shape", ["wrapped", "partial", "object", "method", "async wrapper"])
def test_whatever_can_be_called_is_a_handler(bench: Bench, shape: str) -> None:
    """Partials, decorated functions, objects and methods are run to their end, on the loop where they are async."""
    on_loop = bench.way == "loop"
    handler: Any = {
        "wrapped": wrapped(books_async if on_loop else books_sync),
        "partial": functools.partial(extra_async if on_loop else extra, 1),
        "object": Books() if on_loop else BooksOnThread(),
        "method": (Books() if on_loop else BooksOnThread()).__call__,
        "async wrapper": wrapped(books_async) if on_loop else books_sync,
    }[shape]
    bench.endpoint().on("invoice.paid", "invoice.*")(handler)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert bench.effects() == ["evt_1"]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("open_bench", ["loop"], indirect=True)
@pytest.mark.parametrize("use", ["emit", "review"])
def test_a_message_that_was_not_awaited_fails_its_event(bench: Bench, use: str) -> None:
    """P-OUT: ``tx.emit`` without await would be lost in silence; the failure says so by name."""
    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, error: errors.append(error))

    async def forgets(tx: Any, event: Any) -> None:
        await books_async(tx, event)
        _ = tx.emit("Booked", {}) if use == "emit" else tx.review("look")

    bench.endpoint().on("*")(forgets)
    receipt = bench.deliver("evt_1")
    assert (receipt.status, receipt.reason) == (500, "handler_failed")
    assert (bench.events(), bench.effects(), bench.outbox(), bench.reviews()) == ([], [], [], [])
    assert "without await" in str(errors[0])


@pytest.mark.parametrize("open_bench", ["loop"], indirect=True)
def test_a_message_in_a_task_of_its_own_is_awaited_or_fails_its_event(bench: Bench) -> None:
    """P-OUT: a task that the handler does not wait for may not have written when the event is marked."""
    tasks: list[asyncio.Task[Any]] = []

    async def waits(tx: Any, event: Any) -> None:
        await asyncio.gather(tx.emit("Booked", {"n": 1}), tx.emit("Booked", {"n": 2}))

    async def leaves(tx: Any, event: Any) -> None:
        tasks.append(asyncio.ensure_future(tx.emit("Booked", {"n": 3})))

    bench.endpoint().on("invoice.paid")(waits)
    bench.endpoint("other").on("*")(leaves)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert bench.deliver("evt_2", to="other").status == 500
    assert sorted(message["payload"]["n"] for message in bench.outbox()) == [1, 2]
    assert list(bench.states()) == ["evt_1"]
    tasks[0].cancel()


def test_two_handlers_of_one_name_do_not_share_message_ids(bench: Bench) -> None:
    """P-OUT: closures and lambdas share a name; their messages are told apart, and the same on every run."""

    def telling(what: str) -> Any:
        def tells(tx: Any, event: Any) -> Steps:
            yield tx.emit(what, {})

        return tells

    def register(name: str, inbox: Any = None) -> None:
        endpoint = bench.endpoint(name, inbox=inbox)
        for what in ("First", "Second", "Third"):
            bench.on(endpoint, do=telling(what))

    register("billing")
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    first = {message["event_type"]: message["id"] for message in bench.outbox()}
    assert len(set(first.values())) == 3
    bench.rows("DELETE FROM {schema}.outbox RETURNING 1")
    bench.rows("DELETE FROM {schema}.inbox RETURNING 1")
    another_process = bench.open()
    register("billing", another_process)
    bench.deliver("evt_1", inbox=another_process)
    assert {message["event_type"]: message["id"] for message in bench.outbox()} == first


def test_one_function_for_several_patterns_runs_once(bench: Bench) -> None:
    """An event that matches two patterns of one function has one effect."""
    handler = bench.handler(books)
    bench.endpoint().on("invoice.paid", "invoice.*", "*")(handler)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert bench.effects() == ["evt_1"]


def test_a_commit_that_the_server_answers_with_rollback_is_not_believed(database: str) -> None:
    """P-ONCE, P-ACK: the server commits nothing of an aborted transaction and calls that no error; its tag says so."""
    with psycopg.connect(database) as conn:
        conn.pgconn.exec_(b"BEGIN")
        conn.pgconn.exec_(b"SELECT 1/0")
        answer = conn.pgconn.exec_(b"COMMIT")
        assert answer.command_status == b"ROLLBACK"
        with pytest.raises(TransactionEndedError, match="ROLLBACK"):
            psycopg_flight._outcome(Commit(), [(psycopg_flight._Message(b"COMMIT"), answer)])
