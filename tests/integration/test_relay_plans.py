"""The relay's transactions: what is routed where, who may claim what, and that only a confirmed send is marked."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.fixtures.outbox import MAIL, Outbox
from tests.fixtures.programs import eventually
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.message import NOT_TRIED, Failed, Limits, Sent, Verdict
from webhook_inbox.model.routing import Outlet, Route, Routing
from webhook_inbox.protocol.relay import prune_outbox, reroute_messages

CRM = Outlet(name="crm", limits=Limits())
ORDERED = Outlet(name="mail", limits=Limits(), ordered=True)


def test_a_plain_insert_counts_as_much_as_an_emit(database: str) -> None:
    """P-OUT: the columns of the design are enough; defaults fill the rest, and what is sent carries all of it."""
    box = Outbox(database)
    (message_id,) = box.write("InvoicePaid", aggregate_type="Invoice", aggregate_id="in_1")
    assert box.route() == {"mail": 1}
    (claimed,) = box.claim(box.register())
    message = claimed.message
    assert (str(message.id), message.destination, message.event_type) == (message_id, "mail", "InvoicePaid")
    assert (message.key, message.payload, message.attempt, message.headers) == ("Invoice/in_1", b"{}", 1, {})
    assert message.created_at.tzinfo is not None


def test_what_is_rolled_back_is_never_seen(database: str) -> None:
    """P-OUT: not while its transaction is open, and not after."""
    box = Outbox(database)
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO webhooks.outbox (event_type, payload) VALUES ('Paid', '{}')")
        assert box.route() == {}
        conn.rollback()
    assert box.route() == {}
    assert box.sends() == []


def test_a_message_that_is_committed_late_is_not_passed_over(database: str) -> None:
    """P-OUT: it has a lower position than others that are long sent."""
    box = Outbox(database)
    relay = box.register()
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO webhooks.outbox (event_type, payload) VALUES ('Late', '{}')")
        box.write("Early")
        box.route()
        box.settle(box.claim(relay))
        conn.commit()
    assert box.route() == {"mail": 1}
    assert [each.message.event_type for each in box.claim(relay)] == ["Late"]


def test_routes_go_by_type_and_the_users_word_goes_before(database: str) -> None:
    """A pattern, an exact type, two destinations at once; ``to`` is for one alone, whatever the routes say."""
    routes = [("Invoice*", "mail"), ("InvoicePaid", "crm"), ("Odd%_", "crm")]
    box = Outbox(database, MAIL, CRM, routes=routes)
    box.write("InvoicePaid", "InvoiceVoided", "Odd%_", "OddXYZ")
    box.write("InvoicePaid", destination="crm")
    assert box.route() == {"mail": 2, "crm": 3, "": 1}
    assert box.sends("position", "destination") == [
        (1, "crm"),
        (1, "mail"),
        (2, "mail"),
        (3, "crm"),
        (5, "crm"),
    ]
    assert box.states() == {"routed": 4, "unrouted": 1}


def test_what_no_route_names_is_kept_until_one_does(database: str) -> None:
    """It is no loss, and no success: unrouted, not published; a later release brings its destination."""
    box = Outbox(database, MAIL, routes=[("Invoice*", "mail")])
    box.write("OrderPaid")
    box.write("OrderPaid", destination="crm")
    assert box.route() == {"": 2}
    assert box.route() == {}
    assert box.run(lambda: reroute_messages(box.routing, box.to)) == {}
    assert box.states() == {"unrouted": 2}
    later = Outbox(database, MAIL, CRM, routes=[("Order*", "mail")])
    assert later.run(lambda: reroute_messages(later.routing, later.to)) == {}
    assert later.route() == {"mail": 1, "crm": 1}
    assert box.published() == []


def test_what_waits_for_a_destination_that_is_gone_is_told_of(database: str) -> None:
    """P-KEEP: a renamed destination strands nothing in silence; what is sent or dead there waits for nobody."""
    box = Outbox(database)
    box.write(*["Paid"] * 4)
    box.route()
    relay = box.register()
    sent, dead, *_ = box.claim(relay)
    box.settle([sent])
    box.settle([dead], Failed("no", permanent=True))
    box.end(relay)
    box.take_back()
    later = Outbox(database, CRM)
    assert later.run(lambda: reroute_messages(later.routing, later.to)) == {"mail": 2}
    assert box.run(lambda: reroute_messages(box.routing, box.to)) == {}


@pytest.mark.parametrize(
    ("routes", "text"),
    [
        ([("Paid", "post")], "leads to 'post', which is no destination; there are: mail"),
        ([("*Paid", "mail")], "a beginning with a * at its end"),
        ([("", "mail")], "give a type"),
    ],
)
def test_a_route_that_cannot_work_is_refused(routes: list[tuple[str, str]], text: str) -> None:
    """A misspelt name would keep messages from everybody."""
    with pytest.raises(ConfigurationError, match=text.replace("*", r"\*")):
        Routing((MAIL,), [Route(*each) for each in routes])


def test_a_message_is_published_when_the_last_destination_has_confirmed_it(database: str) -> None:
    """P-OUT: one confirmation of two is none."""
    box = Outbox(database, MAIL, CRM, routes=[("*", "mail"), ("*", "crm")])
    (message_id,) = box.write("Paid")
    box.route()
    relay = box.register()
    assert box.settle(box.claim(relay)) == ["sent"]
    assert box.published() == []
    assert box.settle(box.claim(relay, name="crm")) == ["sent"]
    assert box.published() == [message_id]


def test_a_late_confirmation_publishes_nothing_that_was_written_again(database: str) -> None:
    """P-OUT: a message that was forgotten and is written again under its id is a new one, and is sent."""
    box = Outbox(database)
    (message_id,) = box.write("Booked")
    box.route()
    relay = box.register()
    claims = box.claim(relay)
    assert box.settle(claims) == ["sent"]
    assert box.run(lambda: prune_outbox(0.0, box.to)) == 1
    box.write("Booked", id=message_id)
    assert box.settle(claims) == [None]
    assert box.published() == []
    assert box.route() == {"mail": 1}


def test_two_destinations_that_confirm_at_once_publish_it(database: str) -> None:
    """P-OUT: the second sees what the first has written, however their transactions overlap."""
    box = Outbox(database, MAIL, CRM, routes=[("*", "mail"), ("*", "crm")])
    ids = box.write(*["Paid"] * 40)
    box.route()
    relay = box.register()
    claims = {name: box.claim(relay, name=name) for name in ("mail", "crm")}
    together = threading.Barrier(8)

    def settle(part: int) -> None:
        name = ("mail", "crm")[part % 2]
        together.wait(20)
        box.settle(claims[name][part // 2 :: 4])

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(settle, part) for part in range(8)]:
            done.result(30)
    assert box.published() == ids


def test_an_attempt_is_committed_before_the_send_and_the_claim_is_ours_alone(database: str) -> None:
    """P-COUNT, P-FENCE: token and attempt are there before anything is sent; nobody else claims it."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    relay = box.register()
    (claimed,) = box.claim(relay)
    assert box.sends("state", "claims", "attempts", "worker_id") == [("leased", 1, 1, relay)]
    assert box.claim(box.register()) == ()
    assert box.settle([claimed]) == ["sent"]
    assert box.settle([claimed]) == [None]


def test_who_has_lost_the_claim_settles_nothing(database: str) -> None:
    """P-FENCE: neither a confirmation nor a failure; what the successor does is what counts."""
    box = Outbox(database)
    (message_id,) = box.write("Paid")
    box.route()
    late, successor = box.register(), box.register()
    (lost,) = box.claim(late)
    box.end(late)
    assert box.take_back() == [(message_id, "retrying")]
    (held,) = box.claim(successor)
    assert (held.token, held.message.attempt) == (2, 1)
    assert box.settle([lost]) == [None]
    assert box.settle([lost], Failed("late", permanent=True)) == [None]
    assert box.sends("state", "last_error")[0][0] == "leased"
    assert box.published() == []
    assert box.settle([held]) == ["sent"]


@pytest.mark.parametrize("late", [Sent(), Failed("late", permanent=True)], ids=["sent", "failed"])
def test_an_earlier_claim_of_the_same_relay_settles_nothing(database: str, late: Verdict) -> None:
    """P-FENCE: the token says which claim it was, not only whose."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    relay = box.register()
    (first,) = box.claim(relay)
    box.settle([first], NOT_TRIED)
    (second,) = box.claim(relay)
    assert box.settle([first], late) == [None]
    assert box.sends("state", "claims") == [("leased", 2)]
    assert box.settle([second]) == ["sent"]


def test_claims_of_an_ordered_destination_take_turns(database: str) -> None:
    """While one is not committed, a message that was committed late and belongs before it is not claimed beside it."""
    box = Outbox(database, ORDERED)
    relay, other = box.register(), box.register()
    sql = box.to.sql
    found: list[object] = []
    with psycopg.connect(database) as late, psycopg.connect(database) as first:
        late.execute(
            "INSERT INTO webhooks.outbox (event_type, payload, aggregate_id) VALUES ('A', '{}', 'k')"
        )
        box.write("B", aggregate_id="k")
        box.route()
        params = {"destination": "mail", "limit": 10, "worker_id": relay, "holding": True}
        first.execute(sql.lock_outbox.text.encode(), {"what": "webhooks mail"})
        assert len(first.execute(sql.claim_messages.text.encode(), params).fetchall()) == 1
        late.commit()
        box.route()
        claiming = threading.Thread(target=lambda: found.append(box.claim(other)))
        claiming.start()
        waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: bool(box.rows(waiting)) or not claiming.is_alive(), what="it waits for its turn")
        first.commit()
        claiming.join(20)
    assert found == [()]


def test_nobody_claims_under_a_lease_that_has_ended(database: str) -> None:
    """P-CLOCK: the server's clock says so, whatever the relay believes."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    assert box.claim(box.register(lease_seconds=-1.0)) == ()


@pytest.mark.parametrize(
    ("verdict", "state", "attempts", "costs"),
    [
        (Failed("refused"), "retrying", 1, True),
        (Failed("no such recipient", permanent=True), "dead", 1, True),
        (Failed("gone", permanent=True, stop=True), "dead", 1, True),
        (Failed("unreachable", stop=True), "retrying", 0, False),
        (NOT_TRIED, "waiting", 0, False),
    ],
)
def test_what_failed_is_kept_by_its_verdict(
    database: str, verdict: Failed, state: str, attempts: int, costs: bool
) -> None:
    """P-OUT, P-KEEP: nothing but a confirmation marks it sent; a destination that is away costs no attempt."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    assert box.settle(box.claim(box.register()), verdict) == [state]
    assert box.published() == []
    ((found, tries, error, give_up_at),) = box.sends("state", "attempts", "last_error", "give_up_at")
    assert (found, tries, error or "") == (state, attempts, verdict.reason)
    assert (give_up_at is not None) == costs


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e300])
def test_no_verdict_can_keep_a_lane_from_settling(database: str, seconds: float) -> None:
    """P-FLOW: a destination may be anybody's, and its reasons too: what cannot be stored is written as can be."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    verdict = Failed("bad \x00 \ud83d" + "x" * 5000, retry_in_seconds=seconds)
    assert box.settle(box.claim(box.register()), verdict) == ["retrying"]
    (error,) = box.sends("last_error")
    assert error.startswith("bad ")
    assert len(error) == 2000


@pytest.mark.parametrize("headers", ["[1]", "7", '{"X": "1", "a": 2, "b": "\\u00e9", "c": "ok"}'])
def test_headers_that_plain_sql_wrote_are_sent_where_they_can_be(database: str, headers: str) -> None:
    """P-FLOW: they fail neither the message nor its batch."""
    box = Outbox(database)
    box.write("Paid", headers=headers)
    box.route()
    (claimed,) = box.claim(box.register())
    assert claimed.message.headers == ({"c": "ok"} if "ok" in headers else {})


def test_retries_wait_as_asked_and_end_in_dead(database: str) -> None:
    """P-CLOCK: by the server's clock; past the time of the first failure and ``retry_hours`` it is dead."""
    box = Outbox(database, retry_seconds_max=0.0)
    box.write("Paid")
    box.route()
    relay = box.register()
    assert box.settle(box.claim(relay), Failed("busy", retry_in_seconds=600)) == ["retrying"]
    assert box.claim(relay) == ()
    (waits,) = box.rows("SELECT available_at > now() + interval '9 min' AS long FROM webhooks.sends")
    assert waits["long"]
    box.make_due()
    assert box.settle(box.claim(relay), Failed("busy")) == ["dead"]
    assert box.claim(relay) == ()


def test_attempts_are_limited_where_the_user_says_so(database: str) -> None:
    """The destination's own outage counts for none of them."""
    box = Outbox(database, attempts_max=2)
    box.write("Paid")
    box.route()
    relay = box.register()
    states = []
    for stop in (True, False, True, False):
        states += box.settle(box.claim(relay), Failed("no", stop=stop, retry_in_seconds=0))
    assert states == ["retrying", "retrying", "retrying", "dead"]


def test_a_relay_that_died_has_its_messages_sent_again(database: str) -> None:
    """P-OUT: they may have arrived, so it counts; one that kills its relay again and again waits for longer."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    for times in range(1, 4):
        assert len(box.claim(box.register(lease_seconds=0.2))) == 1
        box.rows("UPDATE webhooks.workers SET lease_ends_at = now() - interval '1 s'")
        assert [state for _, state in box.take_back()] == ["retrying"]
        assert box.sends("attempts") == [times]
        (row,) = box.rows(
            "SELECT available_at - now() < %s * interval '1 s' AS bounded FROM webhooks.sends",
            2 ** (times - 1),
        )
        assert row["bounded"]
        box.make_due()


def test_a_row_that_is_being_settled_is_not_taken_back(database: str) -> None:
    """P-FENCE: its transaction may yet commit."""
    box = Outbox(database)
    box.write("Paid")
    box.route()
    relay = box.register()
    assert len(box.claim(relay)) == 1
    with psycopg.connect(database) as conn:
        conn.execute("SELECT FROM webhooks.sends FOR UPDATE")
        box.end(relay)
        assert box.take_back() == []
    assert box.take_back() != []


def test_order_is_kept_for_each_key_alone(database: str) -> None:
    """One of a key at a time, its oldest first; other keys, and messages about nothing, do not wait for it."""
    box = Outbox(database, ORDERED)
    for aggregate_id in ("a", "a", "b", "", ""):
        box.write("Changed", aggregate_type="Thing", aggregate_id=aggregate_id)
    box.route()
    relay = box.register()
    first = box.claim(relay)
    assert [each.message.key for each in first] == ["Thing/a", "Thing/b", "", ""]
    assert box.claim(relay) == ()
    box.settle(first[:1], Failed("busy", retry_in_seconds=600))
    assert box.claim(relay) == ()
    box.make_due()
    (again,) = box.claim(relay)
    assert again.message.id == first[0].message.id
    box.settle([again])
    assert [each.message.key for each in box.claim(relay)] == ["Thing/a"]


@pytest.mark.parametrize("dead_message", ["hold", "skip"])
def test_a_dead_message_holds_its_key_as_configured(database: str, dead_message: str) -> None:
    """Whoever asked for order decides whether a gap is worse than a wait."""
    outlet = Outlet(name="mail", limits=Limits(), ordered=True, dead_message=dead_message)  # type: ignore[arg-type]  # one of two
    box = Outbox(database, outlet)
    box.write("Changed", "Changed", aggregate_id="a")
    box.route()
    relay = box.register()
    box.settle(box.claim(relay), Failed("no", permanent=True))
    assert len(box.claim(relay)) == (dead_message == "skip")


def test_relays_at_once_keep_the_order_and_claim_nothing_twice(database: str) -> None:
    """Eight of them route, claim and settle forty messages of four keys: each key in its order, each message once."""
    box = Outbox(database, ORDERED)
    for number in range(40):
        box.write("Changed", aggregate_id=str(number % 4))
    seen: list[tuple[str, int]] = []
    lock, together = threading.Lock(), threading.Barrier(8)
    position = {
        str(row["id"]): row["position"] for row in box.rows("SELECT id, position FROM webhooks.outbox")
    }

    def work() -> None:
        relay = box.register()
        together.wait(20)
        while len(box.published()) < 40:
            box.route()
            for claimed in box.claim(relay, limit=2):
                with lock:
                    seen.append((claimed.message.key, position[str(claimed.message.id)]))
                box.settle([claimed])

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work) for _ in range(8)]:
            done.result(60)
    assert len(seen) == 40
    for key in "0123":
        of_key = [number for each, number in seen if each == f"/{key}"]
        assert of_key == sorted(of_key)


def test_old_messages_are_deleted_only_when_they_are_published(database: str) -> None:
    """P-KEEP: waiting, unrouted, dead: whatever is not sent stays, however old."""
    box = Outbox(database, MAIL, routes=[("Paid", "mail")])
    sent, dead = box.write("Paid", "Paid")
    box.route()
    relay = box.register()
    claims = box.claim(relay)
    box.settle(claims[:1])
    box.settle(claims[1:], Failed("no", permanent=True))
    (unrouted, waiting) = box.write("Unknown", "Paid")
    box.rows("UPDATE webhooks.outbox SET created_at = now() - interval '1 year'")
    box.route()
    assert box.run(lambda: prune_outbox(60.0, box.to)) == 0
    box.rows(
        "UPDATE webhooks.outbox SET published_at = now() - interval '1 h' WHERE published_at IS NOT NULL"
    )
    assert box.run(lambda: prune_outbox(60.0, box.to)) == 1
    left = [str(row["id"]) for row in box.rows("SELECT id FROM webhooks.outbox ORDER BY position")]
    assert left == [dead, unrouted, waiting]
    assert sent not in left
    assert box.sends() == ["dead", "waiting"]
