"""The tester delivers as providers do, works as a worker does, and tells what is in the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.fixtures.benches import asyncpg_arguments
from tests.source_examples import EXAMPLES
from webhook_inbox import GiveUp, Inbox, NotYet
from webhook_inbox.destinations import Call, Message
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Discord, GitHub, Hmac, PayPal, Plaid, Sns, Source, StandardWebhooks, Stripe
from webhook_inbox.testing import AsyncInboxTester, InboxTester, Signed, signed
from webhook_inbox.testing.key_pairs import ed25519_pair
from webhook_inbox.testing.signing import sign_hmac
from webhook_inbox.testing.witness import is_for_tests

SECRET = "whsec_fake_tester"
PAID: dict[str, Any] = {"id": "evt_1", "object": "event", "type": "invoice.paid", "livemode": False}


@pytest.fixture
def effects(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A witness of a table that handlers write to."""
    with psycopg.connect(database, autocommit=True) as witness:
        witness.execute("CREATE TABLE effects (event_id text NOT NULL)")
        yield witness


def booking(database: Any, mode: Any, *failures: Exception) -> Inbox:
    """An inbox whose handler raises *failures*, one a run, before it books."""
    inbox = Inbox(database, poll_seconds=0.2)
    left = list(failures)
    billing = inbox.endpoint("billing", Stripe(secrets=SECRET), mode=mode)

    @billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("INSERT INTO effects VALUES (%s)", [event.id])
        tx.emit("Booked", {"event": event.id, "amount": 4200}, aggregate_type="Invoice", aggregate_id="in_1")
        tx.review("have a look", details={"why": "it is a test"})
        if left:
            raise left.pop(0)

    return inbox


def count(effects: psycopg.Connection[Any]) -> int:
    """How many effects there are."""
    return len(effects.execute("SELECT * FROM effects").fetchall())


def test_a_redelivery_has_no_second_effect(database: str, effects: psycopg.Connection[Any]) -> None:
    """The same payload is the same event; what the provider hears is what comes back (P-ONCE, P-STATE)."""
    with InboxTester(booking(database, "inline")) as tester:
        first = tester.deliver("billing", PAID)
        second = tester.deliver("billing", PAID)
        assert (first.outcome, second.outcome) == ("processed", "duplicate")
        assert count(effects) == 1
        event = tester.event("evt_1")
        assert (event.state, event.type, event.environment) == ("processed", "invoice.paid", "test")
        assert event.processed_at is not None
        (message,) = tester.outbox()
        assert (message.event_type, message.aggregate_type, message.aggregate_id) == (
            "Booked",
            "Invoice",
            "in_1",
        )
        assert message.payload == {"event": "evt_1", "amount": 4200}
        assert (message.event_id, message.published_at) == ("evt_1", None)
        (review,) = tester.reviews()
        assert (review.event_id, review.summary, review.resolved) == ("evt_1", "have a look", False)
        assert review.details == {"why": "it is a test"}
        assert tester.errors == []


def test_copies_at_once_have_one_effect(database: str, effects: psycopg.Connection[Any]) -> None:
    """Eight deliveries of one event at the same time: one is processed, the others are duplicates of it."""
    with InboxTester(booking(database, "inline")) as tester:
        receipts = tester.deliver_at_once("billing", PAID, copies=8)
        assert sorted(receipt.outcome for receipt in receipts) == ["duplicate"] * 7 + ["processed"]
    assert count(effects) == 1


def test_a_retry_runs_once_it_is_brought_forward(
    database: str, effects: psycopg.Connection[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Draining leaves alone what is due later; what the handler raised is kept, and printed with its traceback."""
    fault = RuntimeError("the first time")
    with InboxTester(booking(database, "queued", NotYet("wait", retry_in_seconds=600), fault)) as tester:
        assert tester.deliver("billing", PAID).outcome == "queued"
        assert tester.drain() == {"retrying": 1}
        assert tester.drain() == {}
        waiting = tester.event("evt_1")
        assert waiting.state == "retrying"
        assert (waiting.due_at - waiting.received_at).total_seconds() > 500
        assert tester.bring_forward(minutes=5) == 0
        assert tester.bring_forward(minutes=6) == 1
        assert tester.drain()["retrying"] == 1
        assert "RuntimeError" in tester.event("evt_1").last_error
        assert tester.errors == [fault]
        assert "RuntimeError: the first time" in capsys.readouterr().err
        assert count(effects) == 0
        tester.bring_forward(hours=1)
        assert tester.drain() == {"processed": 1}
        assert (tester.event("evt_1").state, tester.event("evt_1").attempts) == ("processed", 2)
    assert count(effects) == 1


def test_a_dead_event_s_hold_ends_when_it_is_brought_forward(
    database: str, effects: psycopg.Connection[Any]
) -> None:
    """What waits behind it runs without a wait."""
    inbox = Inbox(database)
    ordered = inbox.endpoint(
        "billing", Stripe(secrets=SECRET), order_by="customer", attempts_max=1, hold_seconds_max=600
    )

    @ordered.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        if event.id == "evt_1":
            raise ValueError("never")
        tx.conn.execute("INSERT INTO effects VALUES (%s)", [event.id])

    with InboxTester(inbox) as tester:
        for event_id in ("evt_1", "evt_2"):
            tester.deliver("billing", PAID | {"id": event_id, "customer": "cus_1"})
        assert tester.drain() == {"dead": 1}
        assert [event.state for event in tester.events()] == ["dead", "waiting"]
        tester.bring_forward(minutes=11)
        assert tester.drain() == {"processed": 1}
    assert count(effects) == 1


def test_messages_are_sent_and_their_retries_brought_forward(database: str, effects: object) -> None:
    """To the inbox's own destinations; one that fails is tried again without a wait (P-OUT)."""
    inbox = booking(database, "inline")
    sent: list[str] = []
    left = [NotYet("busy", retry_in_seconds=600)]

    async def mail(message: Message) -> None:
        if left:
            raise left.pop()
        sent.append(message.event_type)

    inbox.destination("mail", Call(mail))
    with InboxTester(inbox) as tester:
        tester.deliver("billing", PAID)
        assert tester.relay() == {"retrying": 1}
        assert tester.relay() == {}
        assert [message.published_at for message in tester.outbox()] == [None]
        tester.bring_forward(minutes=11)
        assert tester.relay() == {"sent": 1}
        assert sent == ["Booked"]
        assert all(message.published_at for message in tester.outbox())


def test_retries_end_when_their_hours_are_brought_forward(database: str, effects: object) -> None:
    """Three days of failures, without a wait: then the event is dead."""
    with InboxTester(booking(database, "queued", ValueError("a"), ValueError("b"))) as tester:
        tester.deliver("billing", PAID)
        assert tester.drain()["retrying"] >= 1
        tester.bring_forward(hours=73)
        tester.drain()
        assert tester.event("evt_1").state == "dead"


def test_a_missing_event_is_reported_with_those_that_are_there(database: str, effects: object) -> None:
    """Whoever reads the failed test sees what happened in place of what was expected."""
    with InboxTester(booking(database, "inline", GiveUp("unknown plan"))) as tester:
        with pytest.raises(AssertionError, match="0 events 'evt_1' are recorded; there are none at all"):
            tester.event("evt_1")
        tester.deliver("billing", PAID)
        with pytest.raises(AssertionError, match="there are evt_1 \\(billing: dead\\)"):
            tester.event("evt_2")
        with pytest.raises(ConfigurationError, match="no endpoint 'shop'; there is billing"):
            tester.deliver("shop", PAID)


def test_an_old_delivery_and_a_wrong_secret_are_refused(database: str) -> None:
    """Verification is the endpoint's own (P-RAW)."""
    with InboxTester(booking(database, "inline")) as tester:
        assert (
            tester.deliver("billing", PAID, sent_at=time.time() - 400).reason == "timestamp_out_of_tolerance"
        )
        assert tester.deliver("billing", PAID, secret="whsec_fake_other").reason == "signature_mismatch"
        assert tester.events() == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_provider_of_the_catalogue_is_delivered_for(database: str, name: str) -> None:
    """As the user has configured it, private keys included: signed, believed, identified."""
    example = EXAMPLES[name]
    source = example.make([example.secret])
    believed = source.secrets
    inbox = Inbox(database)
    inbox.endpoint("hooks", source)
    with InboxTester(inbox) as tester:
        receipt = tester.deliver(
            "hooks",
            example.delivery.body,
            type=example.event_types[0],
            id="evt_1",
            url=example.delivery.url,
        )
        assert receipt.status < 300, receipt
        assert [event.type for event in tester.events()] == list(example.event_types)
    assert source.secrets is believed


TOPIC = "arn:aws-cn:sns:cn-north-1:123456789012:Fake"
NOTE = {"Type": "Notification", "MessageId": "m-1", "TopicArn": TOPIC, "Message": "hello"}
CAPTURED = {"id": "WH-1", "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": {}}
PLAID = {"webhook_type": "TRANSACTIONS", "webhook_code": "SYNC_UPDATES_AVAILABLE", "item_id": "i"}


@pytest.mark.parametrize(
    ("source", "payload"),
    [
        pytest.param(lambda: Sns(TOPIC), NOTE, id="sns"),
        pytest.param(lambda: PayPal("1AB23456CD789012E"), CAPTURED, id="paypal"),
        pytest.param(lambda: PayPal("1AB23456CD789012E", environment="test"), CAPTURED, id="paypal sandbox"),
        pytest.param(lambda: Plaid("fake-id", "fake-secret"), PLAID, id="plaid"),
        pytest.param(lambda: StandardWebhooks("whpk_" + "A" * 43 + "="), {"type": "user.created"}, id="whpk"),
    ],
)
def test_sources_that_believe_others_keys_believe_the_test_s(
    database: str, source: Callable[[], Source], payload: dict[str, Any]
) -> None:
    """As they are configured, and without a fetch: nobody can sign with the provider's own key here."""
    inbox = Inbox(database)
    inbox.endpoint("hooks", source())
    with InboxTester(inbox) as tester:
        assert tester.deliver("hooks", payload).outcome == "ignored"


def sign_acme(draft: Any) -> Signed:
    """How Acme signs."""
    return Signed(sign_hmac(draft.body, draft.secret, "x-acme"), draft.body)


def test_a_source_of_one_s_own_is_signed_for_as_its_user_says(database: str) -> None:
    """By a description of it, or by a function."""
    inbox = Inbox(database)
    inbox.endpoint("described", Hmac("acme", secrets="fake-acme", header="x-acme"))
    for signers in ({}, {"acme": sign_acme}):
        with InboxTester(inbox, signers=signers) as tester:
            receipt = tester.deliver("described", {"id": f"evt_{len(signers)}", "type": "order.paid"})
            assert receipt.outcome == "ignored"


class Unknown(Stripe):
    """Signs as Stripe does, under a name that nobody can know."""

    provider = "unknown"


def test_what_cannot_be_signed_says_what_to_give() -> None:
    """Each refusal names the argument that is missing."""
    pair = ed25519_pair(3)
    with pytest.raises(ConfigurationError, match="give type="):
        signed(GitHub("fake"), {})
    with pytest.raises(ConfigurationError, match="private key"):
        signed(Discord(pair.public), {})
    with pytest.raises(ConfigurationError, match="secret="):
        signed(Stripe(lambda delivery: SECRET), {})
    with pytest.raises(ConfigurationError, match="signer="):
        signed(Unknown(SECRET), {})
    assert (
        dict(signed(Discord(pair.public), {}, secret=pair.private).headers)["content-type"]
        == "application/json"
    )


def test_payloads_are_sent_as_they_are_given() -> None:
    """Bytes and text as they are, anything else as compact JSON; the same bytes are the same event."""
    source = GitHub("fake")
    assert signed(source, b'{ "a": 1 }', type="push").body == b'{ "a": 1 }'
    assert signed(source, '{"a":"é"}', type="push").body == '{"a":"é"}'.encode()
    assert signed(source, {"a": "é"}, type="push").body == '{"a":"é"}'.encode()
    first, again, other = (dict(signed(source, {"a": n}, type="push").headers) for n in (1, 1, 2))
    assert first["x-github-delivery"] == again["x-github-delivery"] != other["x-github-delivery"]
    form = signed(source, b"payload=%7B%7D", type="push")
    assert dict(form.headers)["content-type"] == "application/x-www-form-urlencoded"


def test_a_shared_database_is_emptied_only_where_its_name_says_test(
    database: str, effects: psycopg.Connection[Any]
) -> None:
    """Every table of ours but the migrations; anything else is the user's."""
    inbox = booking(database, "queued")
    with InboxTester(inbox) as tester:
        tester.deliver("billing", PAID)
        tester.drain()
    with InboxTester(inbox, fresh=True) as tester:
        assert (tester.events(), tester.outbox(), tester.reviews()) == ([], [], [])
        assert tester.deliver("billing", PAID).outcome == "queued"
    assert count(effects) == 1
    filled = effects.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'webhooks'::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT relispartition"
    ).fetchall()
    emptied = booking(database, "queued")._service._sql.empty_tables.text
    assert {name for (name,) in filled} - {"migrations"} == {
        name for (name,) in filled if f'DELETE FROM "webhooks".{name})' in emptied
    }


def test_a_database_that_is_no_test_s_is_left_alone(cluster: Any) -> None:
    """The name of ``postgres`` says nothing of tests."""
    with pytest.raises(ConfigurationError, match="'postgres', which is not named as one for tests"):
        InboxTester(booking(cluster.dsn, "queued"), fresh=True).__enter__()


def test_a_tester_is_used_while_it_is_open(database: str) -> None:
    """Before and after it says how it is opened; the same one may be opened again."""
    tester = InboxTester(booking(database, "queued"))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="with InboxTester"):
            tester.events()
        with tester:
            assert tester.events() == []


@pytest.mark.parametrize("name", ["test", "test_shop", "shop_test", "Shop-Tests-gw0", "test_0af3"])
def test_a_test_s_database_is_known_by_a_word_of_its_name(name: str) -> None:
    """As people and pytest-django name them."""
    assert is_for_tests(name)


@pytest.mark.parametrize("name", ["shop", "latest", "contests", "attestations", "testimonials", "protest"])
def test_a_name_that_only_sounds_like_a_test_s_is_none(name: str) -> None:
    """Nobody's events are deleted for four letters."""
    assert not is_for_tests(name)


def test_a_schema_is_brought_up_where_it_is_not(empty_database: str) -> None:
    """For whoever has a database of their own for tests."""
    inbox = booking(empty_database, "queued")
    with InboxTester(inbox, fresh=True) as tester:
        assert tester.deliver("billing", PAID).outcome == "queued"


def test_a_pool_of_the_test_s_own_loop_is_tested_there(
    database: str, effects: psycopg.Connection[Any]
) -> None:
    """Asyncpg's pool lives on one loop: the asynchronous tester runs on it."""

    async def story() -> None:
        async with asyncpg.create_pool(
            **asyncpg_arguments(database) | {"min_size": 1, "max_size": 4}
        ) as pool:
            inbox = Inbox(pool, poll_seconds=0.2)
            billing = inbox.endpoint("billing", Stripe(secrets=SECRET))

            @billing.on("invoice.paid")
            async def book(tx: Any, event: Any) -> None:
                await tx.conn.execute("INSERT INTO effects VALUES ($1)", event.id)
                await tx.emit("Booked", {})
                await tx.review("look")

            async with AsyncInboxTester(inbox) as tester:
                receipts = await tester.deliver_at_once("billing", PAID, copies=3)
                assert sorted(each.outcome for each in receipts) == ["duplicate", "duplicate", "queued"]
                assert await tester.drain() == {"processed": 1}
                assert (await tester.event("evt_1", endpoint="billing")).state == "processed"
                assert len(await tester.outbox()) == len(await tester.reviews()) == 1
                assert await tester.bring_forward(hours=1) == 0

    asyncio.run(story())
    assert count(effects) == 1
