"""Receive an event in the request: record, effect, messages and mark commit together, once, or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.fixtures.receiving import Bench, books, plain_hmac, stripe_event
from webhook_inbox import GiveUp, Ignore, NotYet, Outcome, State
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.receipt import EventResult

Steps: TypeAlias = Generator[Any, Any, None]


def failing(times: int, error: BaseException | type[BaseException]) -> Any:
    """A handler that books its event, and raises *error* the first *times* times."""
    runs: list[int] = []

    def fails_at_first(tx: Any, event: Any) -> Steps:
        yield from books(tx, event)
        runs.append(event.attempt)
        if len(runs) <= times:
            raise error

    return fails_at_first


def test_an_event_is_processed_once(bench: Bench) -> None:
    """P-ONCE, P-DUP, P-STATE: one effect, one message, one record; the redelivery hears what became of the first."""
    bench.on(bench.endpoint(), "invoice.paid", do=books)
    first = bench.deliver("evt_1")
    assert (first.status, first.outcome) == (200, Outcome.PROCESSED)
    assert first.json() == {"outcome": "processed", "event_id": "evt_1", "state": "processed"}
    for _ in range(2):
        again = bench.deliver("evt_1")
        assert (again.status, again.outcome) == (200, Outcome.DUPLICATE)
        assert again.results[0].state is State.PROCESSED
        received = bench.events()[0]["received_at"]
        assert again.results[0].first_received_at == received
        assert again.json() == {
            "outcome": "duplicate",
            "event_id": "evt_1",
            "state": "processed",
            "first_received_at": received.astimezone(UTC).isoformat(),
        }
    assert bench.effects() == ["evt_1"]
    assert [message["payload"] for message in bench.outbox()] == [{"event": "evt_1"}]
    bench.assert_idle()


def test_what_is_recorded_of_an_event(bench: Bench) -> None:
    """P-RAW, P-QUIET: the exact bytes, the headers without credentials, the key, and which secret it was."""
    bench.on(bench.endpoint(), do=books)
    body = stripe_event("evt_1", account="acct_1", note="a\\/b \N{SNOWMAN}") + b" \n"
    bench.deliver(body, headers=[("Authorization", "Bearer secret"), ("X-Odd", "\x00\xe9"), ("X-Odd", "two")])
    (event,) = bench.events()
    assert bytes(event["body"]) == body
    assert bytes(event["body_sha256"]) == hashlib.sha256(body).digest()
    assert event["body_bytes"] == len(body)
    names = [name for name, _ in event["headers"]]
    assert names == ["stripe-signature", "x-odd", "x-odd"]
    assert "Bearer" not in str(event["headers"])
    expected = {
        "provider": "stripe",
        "endpoint": "billing",
        "account": "acct_1",
        "environment": "test",
        "event_id": "evt_1",
        "event_type": "invoice.paid",
        "state": "processed",
        "origin": "delivery",
        "attempts": 1,
        "last_error": None,
        "secret_label": "secret-1",
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "payload_state": "jsonb",
        "conflicting": False,
    }
    assert {name: event[name] for name in expected} == expected
    assert event["processed_at"] >= event["received_at"]
    together = "SELECT i.effect_transaction::text = e.xmin::text AS yes FROM {schema}.inbox i, effect e"
    assert bench.rows(together) == [{"yes": True}], "P-ONCE: the mark names the transaction of the effect"


def test_a_handler_that_fails_once_burns_nothing(bench: Bench) -> None:
    """P-ONCE: failed, nothing is stored, 500; the redelivery is processed, and is the first run again (C04)."""
    bench.on(bench.endpoint(), do=failing(1, ValueError("boom")))
    first = bench.deliver("evt_1")
    assert (first.status, first.outcome, first.reason) == (500, Outcome.FAILED, "handler_failed")
    assert b"boom" not in first.body
    assert (bench.events(), bench.effects(), bench.outbox()) == ([], [], [])
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert bench.deliver("evt_1").outcome is Outcome.DUPLICATE
    assert (bench.effects(), len(bench.outbox())) == (["evt_1"], 1)
    assert bench.events()[0]["attempts"] == 1


@pytest.mark.parametrize(
    ("steering", "state"), [(Ignore("not ours"), State.IGNORED), (GiveUp("unknown plan"), State.DEAD)]
)
def test_a_verdict_of_the_handlers_is_kept_without_its_writes(
    bench: Bench, steering: Exception, state: State
) -> None:
    """P-STATE: writes and messages are rolled back, reviews and verdict stay; a dead event is not called processed."""

    def gives_up(tx: Any, event: Any) -> Steps:
        yield from books(tx, event)
        yield tx.review("look at this", details={"n": 1})
        raise steering

    dead: list[tuple[str, EventResult]] = []
    bench.inbox.on_dead(lambda endpoint, result: dead.append((endpoint, result)))
    bench.on(bench.endpoint(), do=gives_up)
    first = bench.deliver("evt_1")
    assert (first.status, first.outcome.value, first.results[0].state) == (200, state.value, state)
    again = bench.deliver("evt_1")
    assert (again.status, again.outcome, again.results[0].state) == (200, Outcome.DUPLICATE, state)
    assert (bench.effects(), bench.outbox()) == ([], [])
    (event,) = bench.events()
    assert (event["state"], event["last_error"], event["attempts"]) == (state, str(steering), 1)
    assert event["processed_at"] is None
    (review,) = bench.reviews()
    assert (review["summary"], review["details"], review["inbox_id"]) == (
        "look at this",
        {"n": 1},
        event["id"],
    )
    assert (review["endpoint"], review["event_id"]) == ("billing", "evt_1")
    assert [(name, result.event_id) for name, result in dead] == (
        [("billing", "evt_1")] if state is State.DEAD else []
    )


@pytest.mark.parametrize(
    "reason", ["nul \x00", "half a pair \ud83d", "x" * 100_000, {"not": "a text"}, None, ""], ids=repr
)
def test_a_verdict_is_kept_whatever_its_reason_says(bench: Bench, reason: Any) -> None:
    """P-CALM: a reason is made of what the sender sent; it must not decide whether the event can be settled."""

    def gives_up(tx: Any, event: Any) -> Steps:
        yield tx.conn.execute("SELECT 1")
        raise GiveUp(reason)

    bench.on(bench.endpoint(), do=gives_up)
    assert bench.deliver("evt_1").outcome is Outcome.DEAD
    assert bench.deliver("evt_1").results[0].state is State.DEAD
    assert len(bench.events()[0]["last_error"] or "") <= 2000


def test_not_yet_leaves_nothing_and_says_when(bench: Bench) -> None:
    """Inline, the provider's redelivery is the retry: 503 with ``Retry-After``, never sooner than was asked for."""
    bench.on(bench.endpoint(), do=failing(1, NotYet("no such order yet", retry_in_seconds=12.2)))
    first = bench.deliver("evt_1")
    assert (first.status, first.outcome, first.reason) == (503, Outcome.UNAVAILABLE, "not_yet")
    assert dict(first.headers)["retry-after"] == "13"
    assert (bench.events(), bench.effects(), bench.outbox()) == ([], [], [])
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED


def test_all_handlers_of_a_type_share_the_transaction(bench: Bench) -> None:
    """P-ONCE: registration order, one transaction; the first that raises decides for all, later ones do not run."""
    ran: list[str] = []
    verdicts: list[BaseException | None] = [ValueError(), Ignore("not now"), None]

    def noting(name: str) -> Any:
        def notes(tx: Any, event: Any) -> Steps:
            ran.append(name)
            yield tx.conn.execute("INSERT INTO effect VALUES (%s, %s)", [event.id, name])
            yield tx.emit("Noted", {"by": name})
            yield tx.review(name)

        return notes

    def decides(tx: Any, event: Any) -> Steps:
        yield from noting("second")(tx, event)
        if (verdict := verdicts.pop(0)) is not None:
            raise verdict

    endpoint = bench.endpoint()
    bench.on(endpoint, "invoice.paid", do=noting("first"))
    bench.on(endpoint, "invoice.*", do=decides)
    bench.on(endpoint, "*", do=noting("third"))
    bench.on(endpoint, "invoice.created", do=noting("another type"))

    assert bench.deliver("evt_1").status == 500
    assert (ran, bench.effects(), bench.reviews()) == (["first", "second"], [], [])
    assert bench.deliver("evt_1").outcome is Outcome.IGNORED
    assert [review["summary"] for review in bench.reviews()] == ["first", "second"]
    assert (bench.effects(), bench.outbox()) == ([], [])
    assert bench.deliver("evt_2").outcome is Outcome.PROCESSED
    assert ran == ["first", "second", "first", "second", "first", "second", "third"]
    assert bench.effects() == ["evt_2"] * 3
    assert sorted(message["payload"]["by"] for message in bench.outbox()) == ["first", "second", "third"]


def test_a_type_without_a_handler_is_recorded_as_ignored(bench: Bench) -> None:
    """C33: 200, kept and countable, and no run of anything."""
    bench.on(bench.endpoint(), "invoice.paid", do=books)
    body = stripe_event("evt_1", type_="balance.available")
    first, second = bench.deliver(body), bench.deliver(body)
    assert [first.outcome, second.outcome] == [Outcome.IGNORED, Outcome.DUPLICATE]
    assert [each.results[0].unhandled_type for each in (first, second)] == ["balance.available", ""]
    (event,) = bench.events()
    assert (event["state"], event["last_error"]) == ("ignored", "no handler for balance.available")
    assert (event["attempts"], bytes(event["body"])) == (0, body)


def test_message_ids_are_the_same_on_every_run(bench: Bench) -> None:
    """P-OUT: made from the event, the handler and the position; no two messages share one."""
    told: list[Any] = []

    def emits_twice(tx: Any, event: Any) -> Steps:
        told.append((yield tx.emit("Booked", {"n": 0})))
        told.append((yield tx.emit("Booked", {"n": 1})))
        if len(told) == 2:
            raise ValueError

    def emits_too(tx: Any, event: Any) -> Steps:
        told.append((yield tx.emit("Booked", {"n": 2})))

    for name in ("billing", "other"):
        endpoint = bench.endpoint(name)
        bench.on(endpoint, do=emits_twice)
        bench.on(endpoint, do=emits_too)
    assert bench.deliver("evt_1").status == 500
    bench.deliver("evt_1")
    assert told[:2] == told[2:4]
    bench.deliver("evt_2")
    bench.deliver("evt_1", to="other")
    stored = {message["id"] for message in bench.outbox()}
    assert stored == set(told)
    assert len(stored) == 9


def test_a_message_of_a_part_that_is_undone_does_not_exist(bench: Bench) -> None:
    """P-OUT: a savepoint of the handler's own takes its messages and reviews with it, and nothing else."""

    def undoes_a_part(tx: Any, event: Any) -> Steps:
        yield tx.emit("Kept", {"n": 1})
        yield tx.conn.execute("SAVEPOINT part")
        yield tx.emit("Undone", {"n": 2})
        yield tx.review("undone")
        yield tx.conn.execute("INSERT INTO effect VALUES ('undone')")
        yield tx.conn.execute("ROLLBACK TO SAVEPOINT part")
        yield from books(tx, event)

    bench.on(bench.endpoint(), do=undoes_a_part)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert sorted(message["event_type"] for message in bench.outbox()) == ["Booked", "Kept"]
    assert (bench.effects(), bench.reviews()) == (["evt_1"], [])


def test_a_message_says_what_it_is_about(bench: Bench) -> None:
    """A message carries its type, what it is about as text, its payload, and the event that it came from."""

    def emits(tx: Any, event: Any) -> Steps:
        yield tx.emit(
            "Booked", {"amount": 10**18, "text": "é\\u0000"}, aggregate_type="Invoice", aggregate_id=7
        )

    bench.on(bench.endpoint(), do=emits)
    bench.deliver("evt_1")
    (message,) = bench.outbox()
    assert message["payload"] == {"amount": 10**18, "text": "é\\u0000"}
    assert (message["event_type"], message["aggregate_type"], message["aggregate_id"]) == (
        "Booked",
        "Invoice",
        "7",
    )
    assert (message["inbox_id"], message["published_at"]) == (bench.events()[0]["id"], None)


def test_what_no_table_can_hold_is_refused_before_it_is_sent(bench: Bench) -> None:
    """A handler that asks for it hears ``ValueError`` and may go on: its transaction is not aborted."""
    refused: list[str] = []

    def tries(tx: Any, event: Any) -> Steps:
        attempts: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
            (tx.emit, ("Booked", {"n": float("nan")}), {}),
            (tx.emit, ("Booked", {"n": object()}), {}),
            (tx.emit, ("Booked", "a\x00b"), {}),
            (tx.emit, ("Booked", "\ud83d"), {}),
            (tx.emit, ("a\x00b", {}), {}),
            (tx.emit, (None, {}), {}),
            (tx.emit, ("Booked", {}), {"aggregate_type": "\ud83d"}),
            (tx.emit, ("Booked", {}), {"aggregate_id": "a\x00b"}),
            (tx.review, ("a\x00b",), {}),
            (tx.review, (7,), {}),
            (tx.review, ("look",), {"details": {"n": {1, 2}}}),
        ]
        for ask, arguments, more in attempts:
            with pytest.raises(ValueError, match=r"^tx\.(emit|review): "):
                ask(*arguments, **more)
            refused.append(ask.__name__)
        yield from books(tx, event)

    bench.on(bench.endpoint(), do=tries)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert len(refused) == 11
    assert (len(bench.outbox()), bench.reviews()) == (1, [])


def test_a_tx_that_outlives_its_handler_can_write_nothing(bench: Bench) -> None:
    """P-ONCE: used after the return it raises; nothing is written into a transaction that is another's."""
    kept: list[Any] = []

    def keeps(tx: Any, event: Any) -> Steps:
        kept.append(tx)
        yield from books(tx, event)

    bench.on(bench.endpoint(), do=keeps)
    bench.deliver("evt_1")
    (tx,) = kept
    with pytest.raises(HandlerFailedError, match="after it had returned"):
        _ = tx.conn
    for use in (tx.emit, tx.review):
        with pytest.raises(HandlerFailedError, match="after it had returned"):
            use("Late", details={}) if use == tx.review else use("Late", {})
    assert len(bench.outbox()) == 1


def test_an_event_tells_its_times_in_utc_whatever_the_session_says(bench: Bench) -> None:
    """``received_at`` is aware, in UTC, to the microsecond, under any TimeZone and DateStyle of the database."""
    seen: list[Any] = []

    def notes(tx: Any, event: Any) -> Steps:
        seen.append(event)
        yield tx.conn.execute("SELECT 1")

    bench.ledger.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kathmandu''', current_database()); "
        "EXECUTE format('ALTER DATABASE %I SET datestyle = ''SQL, DMY''', current_database()); END $$"
    )
    bench.on(bench.endpoint(), do=notes)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    again = bench.deliver("evt_1")
    (event,) = seen
    assert event.received_at.utcoffset() == timedelta(0)
    assert event.received_at == again.results[0].first_received_at == bench.events()[0]["received_at"]
    assert event.created_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_an_event_carries_what_the_provider_said(bench: Bench) -> None:
    """Handlers get one frozen event: bytes, payload, identity, headers without credentials, the number of the run."""
    seen: list[Any] = []

    def notes(tx: Any, event: Any) -> Steps:
        seen.append((event, event.payload["id"], event.idempotency_key("mail")))
        yield tx.conn.execute("SELECT 1")

    bench.on(bench.endpoint(), do=notes)
    body = stripe_event("evt_1", account="acct_1")
    bench.deliver(body, headers=[("Cookie", "secret"), ("X-Kept", "yes")])
    ((event, payload_id, key),) = seen
    assert (event.provider, event.endpoint, event.id, event.type) == (
        "stripe",
        "billing",
        "evt_1",
        "invoice.paid",
    )
    assert (event.account, event.environment, event.body) == ("acct_1", "test", body)
    assert (event.attempt, event.origin.value) == (1, "delivery")
    assert (payload_id, key) == ("evt_1", "webhook:evt_1:mail")
    assert ("cookie" in event.headers, event.headers["X-Kept"]) == (False, "yes")


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_a_victim_of_a_conflict_runs_again_at_once_and_not_for_ever(bench: Bench, sqlstate: str) -> None:
    """C43: deadlock and serialization failure are retried inside, a bounded number of times, then 503."""
    runs: list[int] = []
    conflicts = 3

    def conflicting(tx: Any, event: Any) -> Steps:
        runs.append(1)
        yield from books(tx, event)
        if len(runs) <= conflicts:
            yield tx.conn.execute(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END $$")

    bench.on(bench.endpoint(), do=conflicting)
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    assert (len(runs), bench.effects()) == (4, ["evt_1"])
    runs.clear()
    conflicts = 100
    given_up = bench.deliver("evt_2")
    assert (given_up.status, given_up.reason, len(runs)) == (503, "conflict", 5)
    assert bench.effects() == ["evt_1"]


@pytest.mark.parametrize("mistake", [Ignore("x"), GiveUp, NotYet("x")], ids=repr)
def test_a_verdict_that_is_returned_is_a_failure(bench: Bench, mistake: Any) -> None:
    """P-ONCE: ``return Ignore(...)`` for ``raise`` would be taken for success."""

    def on_thread(tx: Any, event: Any) -> Any:
        return mistake

    async def on_loop(tx: Any, event: Any) -> Any:
        return mistake

    bench.endpoint().on("*")(on_loop if bench.way == "loop" else on_thread)
    assert bench.deliver("evt_1").reason == "handler_failed"
    assert bench.events() == []


def test_a_handlers_error_of_its_own_connection_is_its_own(bench: Bench) -> None:
    """P-DUP: a unique violation of the user's table is a failure of the handler's, never a duplicate event."""
    bench.ledger.execute("CREATE TABLE once (n int PRIMARY KEY); INSERT INTO once VALUES (1)")

    def collides(tx: Any, event: Any) -> Steps:
        yield tx.conn.execute("INSERT INTO once VALUES (1)")

    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, error: errors.append(error))
    bench.on(bench.endpoint(), do=collides)
    receipt = bench.deliver("evt_1")
    assert (receipt.status, receipt.reason, bench.events()) == (500, "handler_failed", [])
    assert [type(error) for error in errors] == [psycopg.errors.UniqueViolation]


def test_the_longest_identity_fits_the_key(bench: Bench) -> None:
    """C22: 255 characters of four bytes each, in id and account, random enough that nothing compresses them."""
    wide = "".join(chr(0x10000 + (n * 7919) % 0xFFFFF) for n in range(255))
    other = "".join(chr(0x10000 + (n * 104_729) % 0xFFFFF) for n in range(255))
    endpoint = bench.endpoint("a" * 100, plain_hmac(account="$.account"))
    bench.on(endpoint, do=books)
    body = stripe_event(wide, account=other, type_=other)
    outcomes = [bench.deliver_hmac(body, to="a" * 100).outcome for _ in range(2)]
    assert outcomes == [Outcome.PROCESSED, Outcome.DUPLICATE]
    assert bench.effects() == [wide]
