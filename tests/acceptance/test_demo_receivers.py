"""What the demo's table rests on: how it counts, and that the comparison is fair."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from stripe import Webhook

from webhook_inbox.demo import chapters
from webhook_inbox.demo.database import StoryDatabase
from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.events import UNKNOWN_CURRENCY, Invoice, write_event
from webhook_inbox.demo.receivers import Receiver, four_receivers, queued_receiver
from webhook_inbox.demo.report import Narrator
from webhook_inbox.demo.sender import Attempt, Sender, sign
from webhook_inbox.demo.stage import Stage
from webhook_inbox.demo.story import SECRET, run_story, set_stage
from webhook_inbox.demo.tally import Tally
from webhook_inbox.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
OURS, MARK_FIRST, MARK_AFTER, ANY_ERROR = four_receivers()


def invoice(name: str, amount: int) -> Invoice:
    """An invoice for the books."""
    return Invoice(name=name, amount=amount, created=1_760_000_000)


@pytest.fixture
def books(cluster: EmbeddedPostgres) -> StoryDatabase:
    """The demo's database with the tables of ours and of one of the others, all empty."""
    database = StoryDatabase(cluster)
    database.make([OURS, MARK_FIRST])
    return database


def plant(books: StoryDatabase, receiver: Receiver, *bookings: Invoice) -> None:
    """Write *bookings* into the ledger of *receiver*."""
    with psycopg.connect(receiver.dsn(books.dsn)) as conn:
        for each in bookings:
            conn.execute(
                "INSERT INTO invoices VALUES (%s, 'cus', 'eur', %s, 'paid') ON CONFLICT DO NOTHING",
                [each.id, each.amount],
            )
            conn.execute(
                "INSERT INTO ledger_entries (invoice_id, kind, currency, amount) VALUES (%s, 'payment', 'eur', %s)",
                [each.id, each.amount],
            )


def test_planted_losses_and_doubles_are_counted(books: StoryDatabase) -> None:
    """Each of: booked once, lost, doubled, tripled, booked though void, booked though nobody sent it."""
    once, lost, twice, thrice, void, stray = (
        invoice(name, amount)
        for name, amount in [("1", 100), ("2", 20), ("3", 3000), ("4", 7), ("5", 50_000), ("6", 600_000)]
    )
    plant(books, MARK_FIRST, once, twice, twice, thrice, thrice, thrice, void, stray)
    due = {once: 1, lost: 1, twice: 1, thrice: 1, void: 0}
    found = books.tally(MARK_FIRST, due)
    assert found == Tally(
        due=4,
        booked=8,
        lost=1,
        doubled=4,
        missing=20,
        surplus=3000 + 14 + 50_000 + 600_000,
        announced=0,
        reviews=0,
    )
    assert books.tally(MARK_FIRST, due, only=[lost]).fate == "lost"
    assert books.tally(MARK_FIRST, due, only=[twice]).fate == "doubled"
    assert books.tally(MARK_FIRST, due, only=[once]).fate == "booked once"
    assert books.tally(MARK_FIRST, due, only=[void]).fate == "doubled"


def test_ledger_of_another_receiver_is_not_counted(books: StoryDatabase) -> None:
    """Each receiver is counted by its own tables."""
    plant(books, MARK_FIRST, invoice("1", 100))
    with psycopg.connect(books.dsn, autocommit=True) as conn:
        conn.execute(
            "CREATE SCHEMA webhooks; CREATE TABLE webhooks.outbox (); CREATE TABLE webhooks.reviews ()"
        )
    assert books.tally(OURS, {invoice("1", 100): 1}).lost == 1


def test_sender_expects_a_booking_for_each_payment_of_an_invoice_that_is_not_void() -> None:
    """The sender's own ledger: paid once whatever the copies; nothing for an open or a void invoice."""
    sender = Sender(SECRET)
    paid, unpaid, void = (invoice(name, 1) for name in "abc")
    events = [
        write_event("invoice.paid", paid),
        write_event("invoice.paid", paid, copy=2),
        write_event("invoice.created", unpaid),
        write_event("invoice.voided", void),
        write_event("invoice.paid", void),
    ]
    for event in events:
        sender.send([], event)
    assert sender.bookings_due() == {paid: 1, unpaid: 0, void: 0}
    sender.close()


def test_no_booking_is_expected_in_a_currency_without_books() -> None:
    """The handler gives it up, and a person must look."""
    sender = Sender(SECRET)
    given_up = replace(invoice("a", 1), currency=UNKNOWN_CURRENCY)
    sender.send([], write_event("invoice.paid", given_up))
    assert sender.bookings_due() == {given_up: 0}
    sender.close()


def test_signature_of_the_sender_is_stripes() -> None:
    """The official library accepts what the demo signs."""
    body = write_event("invoice.paid", invoice("a", 4900)).body
    event: Any = Webhook.construct_event(body, sign(body, SECRET, timestamp=int(time.time())), SECRET)
    assert event.type == "invoice.paid"
    assert event.data.object.amount_paid == 4900


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Our inbox, around the very code and tables of the broken three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PYTHONPATH)
        keyless = replace(OURS, app="tests.acceptance.demo_apps.keyless:app", scripts=MARK_FIRST.scripts)
        with set_stage([keyless, *four_receivers()[1:]]) as stage:
            yield stage


def test_ours_owes_nothing_to_the_ledgers_key(stage: Stage) -> None:
    """
    P-ONCE: with the others' own code and tables, and no unique key in the ledger, ours still loses and doubles nothing
    through copies, crashes and outages. Only the payment under two event ids, which no receiver can know, is doubled.
    """
    result = run_story(stage, Narrator(quiet=True))
    fates = {chapter.title: chapter.lines[0].tally.fate for chapter in result.chapters}
    assert [title for title, fate in fates.items() if fate == "lost"] == []
    assert [title for title, fate in fates.items() if fate == "doubled"] == [
        "One payment under two event ids"
    ]
    assert result.rows[0].tally.lost == 0
    assert not result.ok, "a doubled payment of ours must fail the story"


@pytest.mark.parametrize(
    "forged",
    [None, "t=1,v1=00", "nonsense", f"t={int(time.time())},v1={'0' * 64}"],
    ids=["absent", "old", "nonsense", "of now"],  # by name: every process must collect the same tests
)
def test_every_receiver_refuses_what_stripe_did_not_sign(
    stage: Stage, forged: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-RAW: 400 from all four, and nothing is booked: the broken three are honest about the signature."""
    event = write_event("invoice.paid", invoice(f"forged {forged}", 1))
    monkeypatch.setattr("webhook_inbox.demo.sender.sign", lambda *_, **__: forged or "")
    forger = Sender(SECRET)  # what it sends is not in the books of the story's own sender
    pending = forger.send(stage.servers, event)
    answers = {name: [attempt.result() for attempt in attempts] for name, attempts in pending.items()}
    forger.close()
    assert {name: attempt.status for name, [attempt] in answers.items()} == dict.fromkeys(answers, 400)
    for receiver in stage.receivers:
        assert stage.database.tally(receiver, {event.invoice: 0}, only=[event.invoice]).booked == 0


def test_story_fails_when_a_broken_receiver_does_not_fail_in_its_way(stage: Stage) -> None:
    """A story that shows no loss where one belongs is not ok either: it would prove nothing."""
    claimed = replace(chapters.STORY[2], fates={"mark first": "lost"})
    result = run_story(stage, Narrator(quiet=True), chapters=[claimed])
    assert [(line.receiver, line.expected) for _, line in result.surprises] == [("mark first", "lost")]
    assert not result.ok


def test_story_fails_when_events_of_one_invoice_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``order_by`` the second event of the invoice does not wait, and the story notices."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    app = "tests.acceptance.demo_apps.unordered"
    unordered = replace(queued_receiver(), app=f"{app}:app", worker=f"{app}:inbox")
    with (
        set_stage([], queued=unordered) as stage,
        pytest.raises(StoryError, match="two events of one invoice at a time"),
    ):
        run_story(stage, Narrator(quiet=True), chapters=[])


def test_attempts_are_kept_and_2xx_ends_them(stage: Stage) -> None:
    """The sender sends nothing again that was accepted, and remembers every attempt."""
    before = len(stage.sender.attempts)
    event = write_event("invoice.created", invoice("kept", 1))
    stage.turn_page()
    stage.deliver(event)
    made: list[Attempt] = stage.sender.attempts[before:]
    assert sorted(attempt.receiver for attempt in made) == sorted(
        receiver.name for receiver in stage.receivers
    )
    assert all(attempt.accepted and attempt.event_id == event.id for attempt in made)


def test_events_have_stripes_shape() -> None:
    """Every field of a snapshot event is there, and the invoice says what the type says."""
    this = invoice("shape", 4900)
    for kind, status in [("invoice.created", "draft"), ("invoice.paid", "paid"), ("invoice.voided", "void")]:
        event = json.loads(write_event(kind, this).body)  # type: ignore[arg-type]  # a literal in a list
        assert set(event) == {
            "id", "object", "api_version", "created", "data", "livemode", "pending_webhooks", "request", "type",
        }  # fmt: skip
        told = event["data"]["object"]
        assert (event["type"], event["object"], told["object"], told["status"]) == (
            kind,
            "event",
            "invoice",
            status,
        )
        assert told["amount_paid"] + told["amount_remaining"] == told["amount_due"] == told["total"] == 4900
        assert (told["status_transitions"]["paid_at"] is not None) == (kind == "invoice.paid")
