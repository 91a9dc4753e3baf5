"""``prove`` proves every kind of handler: prepared, set-based, pipelined, ``def`` beside ``async def``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.fixtures.planted import PAID, TABLES, paid
from tests.fixtures.pooler import direct
from tests.fixtures.queue import body_of
from webhook_inbox import Event, GiveUp, Inbox, Tx
from webhook_inbox.endpoint import Endpoint
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import SendGrid, Stripe
from webhook_inbox.testing import Proof, Sample, prove
from webhook_inbox.testing.key_pairs import PAIRS

Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
ADD = "UPDATE accounts SET balance = balance + %s"
BOOK = (
    "INSERT INTO payments (invoice, amount) VALUES (%s, %s) ON CONFLICT (invoice) DO NOTHING RETURNING amount"
)


@pytest.fixture
def shop(database: str) -> str:
    """A database with our schema and a shop's tables; a pooler before it would hide who waits."""
    with psycopg.connect(database) as conn:
        conn.execute(TABLES)
    return direct(database)


def proved(
    shop: str,
    register: Callable[[Endpoint], object],
    *,
    samples: Any = PAID,
    mode: Any = "queued",
    **given: Any,
) -> Proof:
    """What a proof of the handlers that *register* registers comes to."""
    inbox = Inbox(shop)
    options = {"order_by": given.pop("order_by")} if "order_by" in given else {}
    register(inbox.endpoint("billing", Stripe("whsec_fake_prove"), **options))
    return prove(inbox, samples, database=shop, **given)


def test_a_prepare_stage_is_run_as_in_production(shop: str) -> None:
    """Outside of the transaction, before each that is not a duplicate already."""
    prepared: list[str] = []

    def invoice_of(event: Event) -> str:
        prepared.append(event.id)
        return paid(event)[0]

    def book(tx: Tx[Connection], event: Event, invoice: str) -> None:
        if tx.conn.execute(BOOK, [invoice, paid(event)[1]]).fetchone():
            tx.conn.execute(ADD, [paid(event)[1]])

    proof = proved(shop, lambda billing: billing.on("*", prepare=invoice_of)(book))
    assert proof.holds, str(proof)
    # In turn, then in the other order; what is delivered again after each of these is known by then.
    assert prepared[:4] == ["evt_1", "evt_2", "evt_2", "evt_1"]


def test_what_a_prepare_stage_has_read_may_be_old(shop: str) -> None:
    """Both of two that run at once have prepared before either writes: the first one's write is lost."""

    async def balance(_: Event) -> int:
        async with await psycopg.AsyncConnection.connect(shop) as conn:
            row = await (await conn.execute("SELECT balance FROM accounts")).fetchone()
            assert row is not None
            return int(row[0])

    async def add(tx: Tx[AsyncConnection], event: Event, balance: int) -> None:
        await tx.conn.execute("UPDATE accounts SET balance = %s", [balance + paid(event)[1]])

    proof = proved(shop, lambda billing: billing.on("*", prepare=balance)(add), second_ids=False)
    (finding,) = proof.findings
    assert (finding.trial, finding.rows[0]) == ("at once", "- public.accounts a, 30")


def test_a_prepare_stage_that_gives_up_is_an_end_like_any(shop: str) -> None:
    """Its verdict is recorded, and the handler is not run."""

    def refuses(_: Event) -> None:
        raise GiveUp("no such invoice")

    def add(tx: Tx[Connection], event: Event, _: None) -> None:
        tx.conn.execute(ADD, [paid(event)[1]])

    assert proved(shop, lambda billing: billing.on("*", prepare=refuses)(add)).holds


def test_a_set_is_run_as_a_worker_runs_it(shop: str) -> None:
    """A set-based handler that is right for one event and wrong for two is found, with the statement that is."""

    def books_the_first(tx: Tx[Connection], events: list[Event]) -> None:
        if tx.conn.execute(BOOK, paid(events[0])).fetchone():
            tx.conn.execute(ADD, [paid(events[0])[1]])

    def books_each(tx: Tx[Connection], events: list[Event]) -> None:
        booked = [tx.conn.execute(BOOK, paid(event)).fetchone() for event in events]
        tx.conn.execute(ADD, [sum(row[0] for row in booked if row)])

    proof = proved(shop, lambda billing: billing.on_batch("*")(books_the_first))
    (finding,) = proof.findings
    assert (finding.trial, "evt_1, evt_2 as one set" in finding.what) == ("set", True)
    assert any("process_set" in line or "books_the_first" in line for line in finding.story)
    proof = proved(shop, lambda billing: billing.on_batch("*")(books_each))
    assert proof.holds, str(proof)
    # Its own course, a crash before each statement of it, and a lost reply.
    assert proof.schedules["set"] >= 6, str(proof)


def test_handlers_of_both_kinds_are_proved_beside_each_other(shop: str) -> None:
    """A DSN serves ``def`` and ``async def``: an event of one kind races with one of the other."""

    def added(tx: Tx[Connection], event: Event) -> None:
        ((balance,),) = tx.conn.execute("SELECT balance FROM accounts").fetchall()
        tx.conn.execute("UPDATE accounts SET balance = %s", [balance + paid(event)[1]])

    async def taken(tx: Tx[AsyncConnection], event: Event) -> None:
        await tx.conn.execute("UPDATE accounts SET balance = balance - %s", [paid(event)[1]])

    def register(billing: Endpoint) -> None:
        billing.on("invoice.paid")(added)
        billing.on("invoice.refunded")(taken)

    samples = [
        Sample("billing", body_of("evt_1", invoice="in_1", amount=10)),
        Sample("billing", body_of("evt_2", "invoice.refunded", invoice="in_1", amount=4)),
    ]
    (finding,) = proved(shop, register, samples=samples, second_ids=False).findings
    assert finding.trial == "at once"
    assert {line.split()[0][0] for line in finding.story} == {"A", "B"}


def test_an_order_that_the_endpoint_keeps_is_kept(shop: str) -> None:
    """Without it the handler is order-sensitive; with it there is nothing to find, and nothing of it is tried."""

    async def last(tx: Tx[AsyncConnection], event: Event) -> None:
        await tx.conn.execute("UPDATE accounts SET balance = %s", [paid(event)[1]])

    def register(billing: Endpoint) -> None:
        billing.on("*")(last)

    assert [finding.trial for finding in proved(shop, register).findings] == ["order"]
    proof = proved(shop, register, order_by="data.object.id")
    assert proof.holds, str(proof)
    assert "order" not in proof.schedules


def test_a_task_of_a_handlers_dies_with_it(shop: str) -> None:
    """Statements of tasks that a handler has made are stopped and crashed like its own, and nothing runs on."""
    ran_on: list[str] = []

    async def adds_in_tasks(tx: Tx[AsyncConnection], event: Event) -> None:
        async def add() -> None:
            try:
                await tx.conn.execute(ADD, [paid(event)[1]])
            except psycopg.Error:
                ran_on.append(event.id)
                raise

        await asyncio.gather(add(), add())

    proof = proved(shop, lambda billing: billing.on("*")(adds_in_tasks), second_ids=False)
    assert proof.holds, str(proof)
    # Each event: its own course, a crash before the record, both statements and the commit, a lost reply.
    assert proof.schedules["crash"] == 2 * (1 + 4 + 1)
    assert ran_on == []


def test_what_is_not_stopped_is_said(shop: str) -> None:
    """A pipelined handler is proved, and the report says what that proof cannot do."""

    def add(tx: Tx[Connection], event: Event) -> None:
        tx.conn.execute(ADD, [paid(event)[1]])

    proof = proved(shop, lambda billing: billing.on("*", pipeline=True)(add), second_ids=False)
    assert proof.holds, str(proof)
    assert [note for note in proof.not_tried if "add" in note and "pipeline=True" in note] == proof.not_tried
    assert f"not tried: {proof.not_tried[0]}" in str(proof)
    assert proof.as_json()["not_tried"] == proof.not_tried


def test_statements_that_differ_from_run_to_run_are_said(shop: str) -> None:
    """What a handler keeps in its process makes a schedule that cannot be followed; it is no finding."""
    runs: list[int] = []

    def add(tx: Tx[Connection], event: Event) -> None:
        runs.append(1)
        for _ in range(len(runs) % 5):
            tx.conn.execute("SELECT 1")
        tx.conn.execute(ADD, [paid(event)[1]])

    proof = proved(shop, lambda billing: billing.on("*")(add), second_ids=False)
    assert proof.holds, str(proof)
    assert any("differ from run to run" in note for note in proof.not_tried)


def test_a_source_whose_key_only_the_provider_has_needs_no_other(shop: str) -> None:
    """Samples are made with a test's key, and the source is left as it is."""
    inbox = Inbox(shop)
    public = PAIRS["sendgrid"]().public
    source = SendGrid(public)

    @inbox.endpoint("mail", source).on("bounce")
    async def add(tx: Tx[AsyncConnection], _: Event) -> None:
        await tx.conn.execute(ADD, [1])

    sample = Sample("mail", [{"sg_event_id": "evt_1", "event": "bounce", "timestamp": 1_760_000_000}])
    assert prove(inbox, [sample], database=shop, second_ids=False).holds
    assert [secret.reveal() for secret in secrets_of(source.secrets, setting="")] == [public]


def test_another_database_than_the_inbox_has_is_refused(shop: str, empty_database: str) -> None:
    """A pool leads where it leads: nothing is run where nobody meant it."""
    with ConnectionPool(shop, min_size=0, max_size=1, open=True) as pool:
        inbox = Inbox(pool)
        inbox.endpoint("billing", Stripe("whsec_fake_prove"), mode="inline").on("*")(lambda tx, event: None)
        with pytest.raises(ConfigurationError, match="another database than the one to prove on"):
            prove(inbox, PAID, database=direct(empty_database))
