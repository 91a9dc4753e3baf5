"""What a handler may write beside its own tables: checked before it is sent, under ids that never change."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.fixtures.arrivals import SCHEMA, arrival
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.protocol.outbox import json_text
from webhook_inbox.protocol.tx import Review, Tx, review_params
from webhook_inbox.sql.statements import Statements

SQL = Statements.of(SCHEMA)
#: What the first two messages of ``event()`` are called, for ever: receivers remember them.
PINNED = ["912d8718-6048-537a-a61a-18e84ab182dd", "5b951b6d-524e-5f45-8bb7-b283d403c426"]


class Session:
    """Takes statements as a driver does, on a thread."""

    def __init__(self) -> None:
        self.conn = object()
        self.ended = 0
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def execute(self, statement: Any, params: Any) -> Any:
        """Run one statement; a row of one column."""
        assert set(params) == set(statement.parameters)
        self.asked.append((statement.name, dict(params)))
        self.ended += 1
        return (f"row {self.ended}",)


class LoopSession(Session):
    """... and on an event loop."""

    async def execute(self, statement: Any, params: Any) -> Any:
        """Run one statement, once it is awaited."""
        return super().execute(statement, params)


def event(event_id: str = "evt_1", **given: Any) -> Event:
    """An event as handlers get it."""
    return arrival(event_id, **given).event(received_at=None, attempt=1)


def tx_of(*events: Event, session: Session | None = None, handler: str = "billing.book") -> Tx[Any]:
    """The Tx of a handler of *events*, whose rows are numbered from 7."""
    rows = {each.key: (each, number) for number, each in enumerate(events or (event(),), start=7)}
    return Tx(session or Session(), events=rows, handler=handler, sql=SQL)


def test_a_message_is_put_into_the_outbox() -> None:
    """P-OUT: every column, the payload as JSON, the event's own row; its id comes back."""
    session = Session()
    tx = tx_of(session=session)
    given: Any = tx.emit("Booked", {"é": [1, None]}, aggregate_type="Invoice", aggregate_id=12)
    ((name, params),) = session.asked
    assert (name, params.pop("id")) == ("insert_outbox", given)
    assert isinstance(given, UUID)
    assert params == {
        "aggregate_type": "Invoice",
        "aggregate_id": "12",
        "event_type": "Booked",
        "payload": '{"é": [1, null]}',
        "destination": "",
        "headers": '{"correlation-id": "evt_1"}',
        "inbox_id": 7,
    }


def test_a_message_need_not_say_what_it_is_about() -> None:
    """Type and id of the aggregate are empty then."""
    session = Session()
    tx_of(session=session).emit("Booked", None)
    params = session.asked[0][1]
    assert (params["aggregate_type"], params["aggregate_id"], params["payload"]) == ("", "", "null")


def message_ids(*events: Event, handler: str = "billing.book", times: int = 2) -> list[UUID]:
    """The ids of the messages of one run."""
    session = Session()
    tx = tx_of(*events, session=session, handler=handler)
    for each in events:
        for _ in range(times):
            tx.emit("Booked", {}, event=each)
    return [params["id"] for _, params in session.asked]


def test_message_ids_are_made_from_the_event_the_handler_and_the_position() -> None:
    """P-OUT: the same on every run, another for whatever differs in any of them; pinned, as receivers know them."""
    key = event().key
    others = [
        message_ids(event()),
        message_ids(event("evt_2")),
        message_ids(event(), handler="billing.other"),
        *(
            message_ids(event(key=type(key)(**key.columns | {column: "other"})))
            for column in ("provider", "endpoint", "account", "environment")
        ),
    ]
    ids = [each for some in others for each in some]
    assert len(set(ids)) == len(ids) == 14
    assert message_ids(event()) == others[0]
    assert [str(each) for each in others[0]] == PINNED


def test_a_key_names_a_message_whatever_its_position() -> None:
    """P-OUT: handlers whose messages come in another order each time; positions are counted without it."""
    session = Session()
    tx = tx_of(session=session)
    for key in ("b", None, "a", "b"):
        tx.emit("Booked", {}, key=key)
    first, second, third, fourth = (params["id"] for _, params in session.asked)
    assert first == fourth
    assert len({first, second, third}) == 3
    assert str(second) == PINNED[0]
    with pytest.raises(ValueError, match="the key is a text that is not empty"):
        tx.emit("Booked", {}, key="")


def test_a_message_takes_over_the_trace_and_the_correlation_of_its_event() -> None:
    """What is not of W3C's form, or cannot be a header, is left out; what the handler says wins."""
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    session = Session()
    for headers, given in (
        ([("traceparent", trace), ("tracestate", "a=1"), ("x-request-id", "r1")], {}),
        ([("traceparent", "00-zz"), ("tracestate", "a=1")], {"correlation-id": "mine", "x-tenant": "7"}),
        ([("x-correlation-id", "\xe9")], {}),
    ):
        tx_of(event(headers=Headers(headers)), session=session).emit("Booked", {}, headers=given)
    assert [json.loads(params["headers"]) for _, params in session.asked] == [
        {"traceparent": trace, "tracestate": "a=1", "correlation-id": "r1"},
        {"correlation-id": "mine", "x-tenant": "7"},
        {},
    ]


@pytest.mark.parametrize(
    "headers", [{"X-Tenant": "7"}, {"": "7"}, {"x-tenant": "é"}, {"x-tenant": "a\r\nb: c"}, {"x-tenant": 7}]
)
def test_a_header_that_not_every_destination_can_carry_is_refused(headers: Any) -> None:
    """It is told in the handler, not by the destination."""
    with pytest.raises(ValueError, match=r"^tx\.emit: "):
        tx_of().emit("Booked", {}, headers=headers)


def test_what_is_sent_does_not_change_a_message_id() -> None:
    """P-OUT: a re-run may say it differently; it is the same message."""
    session = Session()
    for payload in ({"a": 1}, {"b": 2}):
        tx_of(session=session).emit("Booked", payload, aggregate_id=str(payload))
    first, second = (params["id"] for _, params in session.asked)
    assert first == second


def test_positions_are_counted_for_each_event_of_a_set() -> None:
    """P-OUT: the ids of one event's messages do not depend on its mates."""
    alone = message_ids(event("evt_2"))
    together = message_ids(event("evt_1"), event("evt_2"))
    assert together[2:] == alone
    session = Session()
    one, two = event("evt_1"), event("evt_2")
    tx = tx_of(one, two, session=session)
    for each in (two, one, two, one):
        tx.emit("Booked", {}, event=each)
    assert [params["inbox_id"] for _, params in session.asked] == [8, 7, 8, 7]
    assert [session.asked[n][1]["id"] for n in (0, 2)] == alone


@pytest.mark.parametrize("use", ["emit", "review", "stale"])
def test_a_handler_of_several_events_says_which_it_means(use: str) -> None:
    """No guess: without one, or with one that is not its own, it is refused, and nothing is counted as called."""
    session = Session()
    tx = tx_of(event("evt_1"), event("evt_2"), session=session)
    arguments: dict[str, tuple[Any, ...]] = {"emit": ("Booked", {}), "review": ("look",), "stale": ("k", 1)}
    for wrong in (None, event("evt_3")):
        with pytest.raises(ValueError, match=r"billing\.book handles several events; say which one"):
            getattr(tx, use)(*arguments[use], event=wrong)
    getattr(tx, use)(*arguments[use], event=event("evt_2"))
    assert len(session.asked) == 1
    tx.check_awaited()


def test_a_review_is_kept_and_written() -> None:
    """It is remembered beside the transaction: a verdict rolls it back, and keeps it all the same."""
    session = Session()
    tx = tx_of(session=session)
    assert not tx.reviews
    number: Any = tx.review("paid after void", details={"invoice": "in_1"})
    assert number == "row 1"
    tx.review("look")
    expected = (Review("paid after void", '{"invoice": "in_1"}'), Review("look", "{}"))
    assert tx.reviews == expected
    assert session.asked == [("insert_review", review_params(review, event(), 7)) for review in expected]
    assert review_params(expected[0], event("evt_9"), 3) == {
        "inbox_id": 3,
        "endpoint": "billing",
        "event_id": "evt_9",
        "summary": "paid after void",
        "details": '{"invoice": "in_1"}',
    }


@pytest.mark.parametrize(("row", "stale"), [((1,), False), (None, True)])
def test_a_version_is_stale_where_the_newer_one_is_kept(row: Any, stale: bool) -> None:
    """No row comes back where a newer version was applied before."""

    class Answers(Session):
        def execute(self, statement: Any, params: Any) -> Any:
            super().execute(statement, params)
            return row

    class LoopAnswers(LoopSession):
        async def execute(self, statement: Any, params: Any) -> Any:
            await super().execute(statement, params)
            return row

    session = Answers()
    assert tx_of(session=session).stale("sub_1", 1.5) is stale
    assert session.asked == [
        (
            "version_applied",
            {"endpoint": "billing", "key": "sub_1", "version": Decimal("1.5"), "inbox_id": 7},
        )
    ]
    assert asyncio.run(awaited(tx_of(session=LoopAnswers()).stale("sub_1", 2))) is stale


async def awaited(given: Any) -> Any:
    """What an awaitable gives."""
    return await given


@pytest.mark.parametrize("use", ["emit", "review"])
def test_on_a_loop_it_is_to_be_awaited(use: str) -> None:
    """Nothing is sent before."""
    session = LoopSession()
    tx = tx_of(session=session)
    given: Any = tx.emit("Booked", {}) if use == "emit" else tx.review("look")
    assert session.asked == []
    with pytest.raises(
        HandlerFailedError, match=r"^billing\.book called tx\.emit or tx\.review without await; nothing"
    ):
        tx.check_awaited()
    expected = "row 1" if use == "review" else UUID(PINNED[0])
    assert asyncio.run(awaited(given)) == expected
    tx.check_awaited()


@pytest.mark.parametrize("other", ["emit", "review", "stale"])
@pytest.mark.parametrize("use", ["emit", "review", "stale"])
def test_every_call_has_to_be_awaited(use: str, other: str) -> None:
    """One that was forgotten among others is noticed."""
    session = LoopSession()
    tx = tx_of(session=session)
    arguments: dict[str, tuple[Any, ...]] = {"emit": ("Booked", {}), "review": ("look",), "stale": ("k", 1)}
    forgotten: Any = getattr(tx, use)(*arguments[use])
    asyncio.run(awaited(getattr(tx, other)(*arguments[other])))
    with pytest.raises(HandlerFailedError):
        tx.check_awaited()
    asyncio.run(awaited(forgotten))
    tx.check_awaited()


@pytest.mark.parametrize(
    "use",
    [lambda tx: tx.conn, lambda tx: tx.emit("a", {}), lambda tx: tx.review("a"), lambda tx: tx.stale("k", 1)],
)
def test_after_its_handler_returned_a_tx_is_of_no_use(use: Any) -> None:
    """P-ONCE: the transaction is another's by then."""
    session = Session()
    tx = tx_of(session=session)
    assert tx.conn is session.conn
    tx.seal()
    with pytest.raises(
        HandlerFailedError, match=r"^billing\.book used its tx after it had returned; the transaction"
    ):
        use(tx)
    assert session.asked == []
    assert tx.reviews == ()


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda tx: tx.emit(None, {}), "tx.emit: the event type is a NoneType, not a text"),
        (lambda tx: tx.emit("", {}), "tx.emit: the event type is empty"),
        (
            lambda tx: tx.emit("a\x00", {}),
            "tx.emit: the event type holds a NUL or a lone surrogate, which PostgreSQL cannot store",
        ),
        (
            lambda tx: tx.emit("a", {}, aggregate_type=b"b"),
            "tx.emit: the aggregate type is a bytes, not a text",
        ),
        (lambda tx: tx.emit("a", {}, aggregate_type="\ud83d"), "tx.emit: the aggregate type holds a NUL or"),
        (lambda tx: tx.emit("a", {}, aggregate_id="\x00"), "tx.emit: the aggregate id holds a NUL or"),
        (lambda tx: tx.emit("a", {1, 2}), "tx.emit: the payload is not JSON: TypeError"),
        (lambda tx: tx.review("\x00"), "tx.review: the summary holds a NUL or"),
        (
            lambda tx: tx.review("a", details={"b": float("inf")}),
            "tx.review: the details is not JSON: ValueError",
        ),
        (lambda tx: tx.stale("\x00", 1), "tx.stale: the key holds a NUL or"),
        (lambda tx: tx.stale(3, 1), "tx.stale: the key is a int, not a text"),
        (lambda tx: tx.stale("k", float("nan")), "tx.stale: the version is no finite number"),
        (lambda tx: tx.stale("k", Decimal("Infinity")), "tx.stale: the version is no finite number"),
    ],
)
def test_what_no_table_can_hold_is_refused_before_it_is_sent(use: Any, says: str) -> None:
    """The transaction is not aborted, and the call does not count as one that was forgotten."""
    session = Session()
    tx = tx_of(session=session)
    with pytest.raises(ValueError, match="^tx") as caught:
        use(tx)
    assert str(caught.value).startswith(says)
    assert (session.asked, tx.reviews) == ([], ())
    tx.check_awaited()


@pytest.mark.parametrize(
    "value", [{"a": "b\\u0000"}, "\\\\u0000", {"ключ": "значение"}, 10**30, [], "", True, 1.5]
)
def test_json_is_written_as_jsonb_takes_it(value: Any) -> None:
    """A backslash before ``u0000`` is ordinary text; characters are themselves."""
    text = json_text(value, what="it")
    assert json.loads(text) == value
    assert "\\u04" not in text


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("\x00", "it holds a NUL character, which PostgreSQL cannot store"),
        ({"a\x00": 1}, "it holds a NUL character"),
        ("\\\x00", "it holds a NUL character"),
        ("a\\\\\x00b", "it holds a NUL character"),
        ("\ud83d", "it holds a lone surrogate, which PostgreSQL cannot store"),
        ({"\ude00": 1}, "it holds a lone surrogate"),
        (float("nan"), "it is not JSON: ValueError"),
        (object(), "it is not JSON: TypeError"),
        ({(1, 2): 3}, "it is not JSON: TypeError"),
    ],
)
def test_what_jsonb_refuses_is_refused_here(value: Any, says: str) -> None:
    """P-QUIET: the rule is told, never the value."""
    with pytest.raises(ValueError, match="^it ") as caught:
        json_text(value, what="it")
    assert str(caught.value).startswith(says)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_is_nested_without_end_is_no_json() -> None:
    """Neither a value that holds itself, nor one that is deeper than Python goes."""
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value, error in ((endless, "ValueError"), (deep, "RecursionError")):
        with pytest.raises(ValueError, match=f"^it is not JSON: {error}$"):
            json_text(value, what="it")
