"""``prove`` finds what is wrong with a handler, shows how, and has nothing to say about a good one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fixtures.planted import PAID, TABLES, paid
from tests.fixtures.pooler import PgBouncer, direct
from tests.fixtures.queue import body_of
from webhook_inbox import Inbox
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Stripe
from webhook_inbox.testing import Proof, Sample, prove

Handler = Callable[[Any, Any], None]


@pytest.fixture
def shop(database: str) -> str:
    """A database with our schema and a shop's tables; a pooler before it would hide who waits."""
    with psycopg.connect(database) as conn:
        conn.execute(TABLES)
    return direct(database)


def proved(shop: str, handler: Handler, **given: Any) -> Proof:
    """What a proof of *handler* comes to."""
    inbox = Inbox(shop)
    inbox.endpoint("billing", Stripe("whsec_fake_prove"), mode="inline").on("*")(handler)
    return prove(inbox, given.pop("samples", PAID), database=shop, **given)


def books_once(tx: Any, event: Any) -> None:
    """Go by the invoice, and let the database add."""
    invoice, amount = paid(event)
    book = (
        "INSERT INTO payments (invoice, amount) VALUES (%s, %s) ON CONFLICT (invoice) DO NOTHING RETURNING id"
    )
    if tx.conn.execute(book, [invoice, amount]).fetchone():
        tx.conn.execute("UPDATE accounts SET balance = balance + %s", [amount])
        tx.emit("Booked", {"invoice": invoice})


def reads_and_writes(tx: Any, event: Any) -> None:
    """Add in Python, to what another may have read, too."""
    ((balance,),) = tx.conn.execute("SELECT balance FROM accounts").fetchall()
    tx.conn.execute("UPDATE accounts SET balance = %s", [balance + paid(event)[1]])


def keeps_the_last(tx: Any, event: Any) -> None:
    """Believe whatever comes last."""
    tx.conn.execute("UPDATE accounts SET balance = %s", [paid(event)[1]])


def has_its_own_connection(tx: Any, event: Any) -> None:
    """Write beside the transaction that it was given."""
    with psycopg.connect(tx.conn.info.dsn) as own:
        own.execute("UPDATE accounts SET balance = balance + %s", [paid(event)[1]])
    tx.conn.execute("SELECT 1")


def test_a_good_handler_holds(shop: str) -> None:
    """Every trial is run to its end, and none finds anything; nothing of it is left in the database."""
    proof = proved(shop, books_once)
    assert proof.holds, str(proof)
    assert not proof.cut_short, str(proof)
    assert list(proof.schedules) == ["in turn", "order", "second id", "copies at once", "crash", "at once"]
    assert proof.schedules["crash"] >= 2 * len(PAID)
    with psycopg.connect(shop) as conn:
        assert conn.execute("SELECT id, invoice FROM payments").fetchall() == [(1, "in_0")]
        assert conn.execute("SELECT balance FROM accounts").fetchall() == [(0,)]
        assert conn.execute("SELECT count(*) FROM webhooks.inbox").fetchall() == [(0,)]
        assert conn.execute("SELECT nextval('payments_id_seq')").fetchall() == [(2,)]
        kept = "SELECT count(*) FROM pg_namespace WHERE nspname = 'webhook_inbox_proof'"
        assert conn.execute(kept).fetchall() == [(0,)]


def test_a_connection_beside_the_given_one_is_found(shop: str) -> None:
    """What is written there stays where the event's transaction is rolled back."""
    found = {finding.trial: str(finding) for finding in proved(shop, has_its_own_connection).findings}
    assert "+ public.accounts a, 40" in found["crash"]


def test_a_race_comes_with_the_schedule_that_shows_it(shop: str) -> None:
    """The story tells which statement of whom came when."""
    (finding,) = proved(shop, reads_and_writes, second_ids=False).findings
    assert finding.schedule
    assert any("SELECT balance" in line for line in finding.story)


def test_a_handler_that_always_fails_is_told_by_what_rose_and_where(shop: str) -> None:
    """That is where the user has to look; what it says is left out, since it may quote the payload (P-QUIET)."""

    def fails(tx: Any, event: Any) -> None:
        raise KeyError(paid(event)[0])

    (finding,) = proved(shop, fails).findings
    assert re.search(r"fails failed: KeyError at test_prove\.py:\d+ fails$", finding.what)
    assert "in_1" not in str(finding)


def test_the_same_seed_tries_the_same(shop: str) -> None:
    """Orders are of chance, and chance is of the seed."""
    samples = [Sample("billing", body_of(f"evt_{n}", invoice=f"in_{n}", amount=n)) for n in range(1, 6)]
    trials = {"samples": samples, "orders_max": 6, "second_ids": False}
    proofs = [proved(shop, keeps_the_last, seed=seed, **trials) for seed in (7, 7)]
    assert str(proofs[0].findings) == str(proofs[1].findings)


def test_time_that_is_over_is_told(shop: str) -> None:
    """A proof that was not finished does not look like one that was."""
    proof = proved(shop, books_once, seconds_max=0.0)
    assert "in turn" in proof.cut_short
    assert not proof.holds, "nothing was tried"


def test_a_column_can_be_left_out(shop: str) -> None:
    """What is of no importance is not compared; a table that is not there is an error."""
    assert proved(shop, keeps_the_last, ignore=["accounts.balance"]).holds
    assert proved(shop, keeps_the_last, tables=["payments"]).holds
    with psycopg.connect(shop) as conn:
        conn.execute("CREATE TABLE zones (name text); INSERT INTO zones VALUES ('utc')")
    assert proved(shop, keeps_the_last, tables=["public.payments", "zones"]).holds
    assert not proved(shop, keeps_the_last, tables=["accounts"]).holds
    with pytest.raises(ConfigurationError, match="no table"):
        proved(shop, keeps_the_last, tables=["paiments"])


def test_programs_read_the_same(shop: str) -> None:
    """JSON and JUnit say what the text says."""
    proof = proved(shop, keeps_the_last)
    told = json.loads(json.dumps(proof.as_json()))
    assert (told["holds"], [each["trial"] for each in told["findings"]]) == (False, ["order"])
    suite = ET.fromstring(proof.as_junit())  # noqa: S314 - our own
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["order"]


def test_a_database_that_matters_is_refused(shop: str, empty_database: str) -> None:
    """Neither one with events in it nor one with another name is written to."""
    inbox = Inbox(shop)
    inbox.endpoint("billing", Stripe("whsec_fake_prove"), mode="inline").on("*")(books_once)
    with psycopg.connect(shop) as conn:
        conn.execute(
            "CREATE ROLE clerk_of_the_shop LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA webhooks TO clerk_of_the_shop"
        )
        conn.execute("GRANT USAGE ON SCHEMA webhooks TO clerk_of_the_shop")
    with pytest.raises(ConfigurationError, match="no superuser"):
        prove(inbox, PAID, database=make_conninfo(shop, user="clerk_of_the_shop"))
    with psycopg.connect(shop) as conn:
        conn.execute("DROP OWNED BY clerk_of_the_shop; DROP ROLE clerk_of_the_shop")
        conn.execute(
            "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes) "
            "VALUES ('stripe', 'billing', 'evt', 'x', 'waiting', '', 0)"
        )
    with pytest.raises(ConfigurationError, match="has events in it"):
        prove(inbox, PAID, database=shop)
    with pytest.raises(ConfigurationError, match="not named as one for tests"):
        prove(inbox, PAID, database="postgresql:///shop")


def test_a_pooler_before_the_database_is_refused(shop: str, pgbouncer: PgBouncer) -> None:
    """Its sessions are not the server's: a statement that waits for another would not be seen."""
    inbox = Inbox(shop)
    inbox.endpoint("billing", Stripe("whsec_fake_prove"), mode="inline").on("*")(books_once)
    with pytest.raises(ConfigurationError, match="a pooler stands before the database"):
        prove(inbox, PAID, database=pgbouncer.dsn_of(shop))


def test_what_cannot_be_proved_is_said(shop: str) -> None:
    """An unknown endpoint and no sample at all are refused by name."""
    with pytest.raises(ConfigurationError, match="no endpoint"):
        proved(shop, books_once, samples=[Sample("shop", b"{}")])
    with pytest.raises(ConfigurationError, match="without a sample"):
        proved(shop, books_once, samples=[])
