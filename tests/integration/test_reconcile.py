"""P-FIND: what never arrived is found by asking the provider, whatever kind of day it has, and has its effect once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.provider_apis import API_KEY, HOOK, GitHubApi, StripeApi, Told, served
from tests.fixtures.queue import EFFECTS, SECRET, Queue, until
from webhook_inbox import Outcome
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.reconciled import Reconciled, Tally
from webhook_inbox.protocol import asking as pauses, reconcile as flow
from webhook_inbox.protocol.walks import list_walks
from webhook_inbox.runtime import asking, reconciler
from webhook_inbox.sources import GitHub, Stripe

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def stripe() -> Iterator[StripeApi]:
    """Stripe, on loopback."""
    api = StripeApi()
    with served(api):
        yield api


@pytest.fixture
def github() -> Iterator[GitHubApi]:
    """GitHub, on loopback."""
    api = GitHubApi()
    with served(api):
        yield api


class Shop(Queue):
    """An inbox whose endpoint ``shop`` gets events of Stripe's, and ``forge`` those of GitHub's."""

    def __init__(self, dsn: str, **given: Any) -> None:
        super().__init__(dsn, **given)
        self.rows(EFFECTS)

    def stripe(self, api: StripeApi, *, mode: Any = "queued", **given: Any) -> Shop:
        """Open the endpoint, with a handler for ``invoice.*`` that leaves one effect."""
        source = Stripe(SECRET, api_key=API_KEY, api_base=api.url, **given)
        endpoint = self.inbox.endpoint("shop", source, mode=mode)

        @endpoint.on("invoice.*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(
                "INSERT INTO effects (event_id, note) VALUES (%s, %s)",
                [event.id, f"{event.origin} {event.payload.get('account', '')}".strip()],
            )

        return self

    def github(self, api: GitHubApi) -> Shop:
        """Open the endpoint, with a handler for every issue."""
        source = GitHub(SECRET, api_key=API_KEY, hook=HOOK, api_base=api.url)

        @self.inbox.endpoint("forge", source).on("issues.*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(
                "INSERT INTO effects (event_id, note) VALUES (%s, %s)",
                [event.id, f"{event.type} {event.payload['note']}"],
            )

        return self

    async def reconcile(self, endpoint: str = "shop", days: float | None = 3, **given: Any) -> Reconciled:
        """Reconcile, within a bounded time."""
        since = None if days is None else days * DAY
        asked = self.inbox.reconcile(endpoint, since_seconds=since, **given)
        return await asyncio.wait_for(asked, 60)

    def walk(self) -> dict[str, Any]:
        """What is remembered of the one list."""
        (row,) = self.rows("SELECT * FROM {s}.reconciles")
        return row

    def release(self) -> None:
        """Let so much time pass that a process which died holds its list no more."""
        self.rows("UPDATE {s}.reconciles SET held_until = '-infinity'")


def test_of_a_thousand_events_each_has_its_effect_once(database: str, stripe: StripeApi) -> None:
    """P-FIND: 2 % were never delivered, pages come in disorder and with errors between: all is found once."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        chance = random.Random(7)
        events = [
            stripe.add(f"evt_{number:04}", ago=120 + chance.random() * 2 * DAY) for number in range(1000)
        ]
        missed = {each["id"] for each in chance.sample(events, 20)}
        stripe.order = lambda page: chance.sample(page, len(page))
        stripe.troubles.extend([Told(status=429, headers={"Retry-After": "0"}), Told(b"<html>", status=502)])
        await asyncio.gather(
            *(
                shop.deliver(json.dumps(each).encode(), to="shop")
                for each in events
                if each["id"] not in missed
            )
        )
        dry = await shop.reconcile(dry_run=True)
        assert dry.tally == Tally(seen=1000, present=980, recovered=20)
        assert shop.rows("SELECT 1 FROM {s}.reconciles") == []
        done = await shop.reconcile()
        assert (done.good, done.tally) == (True, Tally(seen=1000, present=980, recovered=20))
        again = await shop.reconcile()
        assert again.tally == Tally(seen=1000, present=1000)
        await shop.drain()
        assert sorted(shop.effects()) == [each["id"] for each in events]
        origins = shop.rows("SELECT event_id FROM effects WHERE note = 'reconcile'")
        assert {row["event_id"] for row in origins} == missed
        await shop.close()

    asyncio.run(story())


@pytest.mark.parametrize("mode", ["inline", "queued", "hybrid"])
@pytest.mark.parametrize("copy_first", [True, False])
def test_copy_and_delivery_are_one_event(
    mode: Any, copy_first: bool, database: str, stripe: StripeApi
) -> None:
    """P-DUP: whichever comes second is the duplicate; of a connected account too, which the list does not name."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe, mode=mode, accounts=["acct_1", "acct_2"])
        event = stripe.add("evt_1", account="acct_1")
        assert "account" not in stripe.events["acct_1"][0]
        stripe.add("evt_1", account="acct_2")
        body = json.dumps(event).encode()
        if not copy_first:
            await shop.deliver(body, to="shop")
        done = await shop.reconcile()
        assert done.tally == Tally(seen=2, present=int(not copy_first), recovered=1 + int(copy_first))
        if copy_first:
            receipt = await shop.deliver(body, to="shop")
            assert receipt.outcome is Outcome.DUPLICATE
        await shop.drain()
        first = "reconcile" if copy_first else "delivery"
        notes = shop.rows("SELECT note FROM effects ORDER BY note")
        assert {row["note"] for row in notes} == {f"{first} acct_1", "reconcile acct_2"}
        assert len(notes) == 2
        assert shop.rows("SELECT 1 FROM {s}.conflicts") == []
        await shop.close()

    asyncio.run(story())


def test_github_is_asked_for_what_it_does_not_send_again(database: str, github: GitHubApi) -> None:
    """The payload of each missing delivery, once however often it was tried; a ping is left."""

    async def story() -> None:
        shop = Shop(database).github(github)
        github.page_max = 3
        for number in range(7):
            github.add(f"guid-{number}", ago=7200 - number)
        github.add("guid-0", ago=3600)
        github.add("guid-ping", event="ping", payload={"zen": "fake"})
        github.add("guid-push", event="push", payload={"ref": "refs/heads/main"})
        github.add("guid-lost", kept=False)
        github.add("guid-ancient", ago=2.5 * DAY)
        body = b'{"action": "opened", "issue": {"number": 7}, "note": 1.5}'
        headers = [("X-GitHub-Event", "issues"), ("X-GitHub-Delivery", "guid-3")]
        headers.append(
            ("X-Hub-Signature-256", f"sha256={hmac.new(SECRET.encode(), body, 'sha256').hexdigest()}")
        )
        await shop.inbox.receive("forge", headers=headers, body=body)
        dry = await shop.reconcile("forge", days=1, dry_run=True)
        assert dry.tally == Tally(seen=9, present=2, recovered=7)
        done = await shop.reconcile("forge", days=1)
        assert done.tally == Tally(seen=9, present=2, recovered=6, out_of_reach=1)
        (walk,) = done.walks
        assert not done.good
        assert [each.event_id for each in walk.unfit] == ["guid-lost"]
        await shop.drain()
        assert sorted(shop.effects()) == [f"guid-{number}" for number in range(7)]
        notes = shop.rows("SELECT DISTINCT note FROM effects")
        assert [row["note"] for row in notes] == ["issues.opened 1.5"]
        assert all("elsewhere" not in each for each in github.asked)
        assert shop.rows("SELECT 1 FROM {s}.conflicts") == []
        again = await shop.inbox.receive(
            "forge", headers=[*headers[:1], ("X-GitHub-Delivery", "guid-5"), headers[2]], body=body
        )
        assert (again.outcome, again.results[0].conflicting) == (Outcome.DUPLICATE, False)
        await shop.close()

    asyncio.run(story())


def test_an_event_that_shows_late_is_found_by_the_next_run(database: str, stripe: StripeApi) -> None:
    """Each run reaches back behind the last one: where that ended is never relied on."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_1", ago=600)
        assert (await shop.reconcile(days=None)).tally == Tally(seen=1, recovered=1)
        stripe.add("evt_late", ago=2 * DAY)
        assert (await shop.reconcile(days=None)).tally == Tally(seen=2, present=1, recovered=1)
        await shop.close()

    asyncio.run(story())


def test_what_is_on_its_way_is_left_to_arrive(database: str, stripe: StripeApi) -> None:
    """So that what is recovered says something about deliveries that failed."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_young", ago=5)
        assert (await shop.reconcile()).tally == Tally()
        await shop.close()

    asyncio.run(story())


def test_an_interrupted_run_goes_on_where_it_was(database: str, stripe: StripeApi) -> None:
    """The provider fails on the third page; the next run asks for that page, and counts the first two as well."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.page_max = 10
        for number in range(50):
            stripe.add(f"evt_{number:02}", ago=3600 + number)
        right, pages = stripe.answer, []

        def fails_at_the_third(*request: Any) -> Told:
            pages.append(1)
            return Told(status=500) if len(pages) > 2 else right(*request)

        stripe.answer = fails_at_the_third  # type: ignore[method-assign, assignment]
        done = await shop.reconcile()
        assert (done.good, done.walks[0].error) == (False, "it answers 500")
        assert done.tally == Tally(seen=20, recovered=20)
        assert (shop.walk()["cursor"], shop.walk()["complete_at"]) == ("evt_19", None)
        stripe.answer = right  # type: ignore[method-assign]
        stripe.asked.clear()
        resumed = await shop.reconcile()
        assert "starting_after=evt_19" in stripe.asked[0]
        assert (resumed.good, resumed.tally) == (True, Tally(seen=50, recovered=50))
        assert (shop.walk()["cursor"], shop.walk()["last_error"]) == ("", "")
        assert shop.walk()["complete_at"] is not None
        await shop.close()

    asyncio.run(story())


def counted(shop: Shop) -> float:
    """How many events the metrics say were recovered."""
    labels = {"endpoint": "shop", "result": "recovered"}
    return shop.inbox.metrics.registry.get_sample_value("webhook_inbox_reconciled_total", labels) or 0.0


def test_a_list_that_takes_longer_than_a_run_may_is_walked_to_its_end(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FIND: run by run, however long ago the first began; each event is counted by the run that found it."""
    monkeypatch.setattr(flow, "LIST_SECONDS_MAX", 0.0)

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.page_max = 10
        for number in range(30):
            stripe.add(f"evt_{number:02}", ago=4 * 3600 + number)
        for seen in (10, 20):
            done = await shop.reconcile()
            assert (done.good, done.goes_on) == (False, True)
            assert (done.tally, done.found) == (
                Tally(seen=seen, recovered=seen),
                Tally(seen=10, recovered=10),
            )
            assert "a run within an hour goes on from here" in done.walks[0].error
            assert counted(shop) == seen
            shop.rows("UPDATE {s}.reconciles SET began_at = began_at - interval '50 min'")
        done = await shop.reconcile()
        assert (done.good, done.goes_on) == (True, False)
        assert (done.tally, counted(shop)) == (Tally(seen=30, recovered=30), 30)
        assert shop.walk()["complete_at"] < datetime.now(UTC) - timedelta(minutes=99)
        await shop.close()

    asyncio.run(story())


def test_a_cursor_of_more_than_an_hour_ago_is_none_any_more(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FIND: the list is walked anew, since nobody knows what the provider makes of it."""
    monkeypatch.setattr(flow, "LIST_SECONDS_MAX", 0.0)

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.page_max = 10
        for number in range(20):
            stripe.add(f"evt_{number:02}", ago=3600 + number)
        assert (await shop.reconcile()).goes_on
        shop.rows("UPDATE {s}.reconciles SET noted_at = noted_at - interval '61 min'")
        done = await shop.reconcile()
        assert (done.tally, done.found) == (Tally(seen=10, present=10), Tally(seen=10, present=10))
        assert counted(shop) == 10
        await shop.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (
            Told({"error": API_KEY}, 401),
            "it answers 401: the api_key is not (or no longer) allowed to read this list",
        ),
        (
            Told(status=429, headers={"Retry-After": "900"}),
            "the rate limit is reached, for another 900 seconds",
        ),
        (
            Told(
                status=403,
                headers={
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": "4102448400",
                    "Date": "Fri, 01 Jan 2100 00:00:00 GMT",
                },
            ),
            "the rate limit is reached, for another 3600 seconds",
        ),
        (Told(b"[1, 2"), "the answer is no list of events"),
        (Told({"data": [{}], "has_more": True}), "there is more, but the last event of the page has no id"),
        (Told(b"{}", headers={"Content-Length": "100"}), "127.0.0.1 cannot be asked: IncompleteRead"),
    ],
)
def test_a_bad_day_of_the_provider_is_told_in_our_words(
    trouble: Told, error: str, database: str, stripe: StripeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: why, and neither the key nor what was answered; nothing is lost, and the next run finds it."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_1")
        stripe.troubles.extend([trouble] * 5)
        done = await shop.reconcile()
        assert (done.good, done.walks[0].error) == (False, error)
        assert shop.walk()["last_error"] == error
        stripe.troubles.clear()
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        assert (
            API_KEY not in f"{done!r} {caplog.text} {shop.walk()!r} {shop.rows('SELECT * FROM {s}.inbox')!r}"
        )
        await shop.close()

    caplog.set_level("DEBUG")
    asyncio.run(story())


def test_a_provider_that_does_not_answer_holds_nobody(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request takes a bounded time; meanwhile another process that asks for the same hears that one is at it."""
    monkeypatch.setattr(asking, "SECONDS_MAX", 0.3)
    monkeypatch.setattr(pauses, "ATTEMPTS_MAX", 2)

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_1")
        stripe.hold.clear()
        first = asyncio.create_task(shop.reconcile())
        await until(stripe.holding.is_set)
        second = await shop.reconcile()
        assert (second.walks[0].busy, second.good) == (True, False)
        assert (await first).walks[0].error == "127.0.0.1 cannot be asked: TimeoutError"
        stripe.hold.set()
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        await shop.close()

    asyncio.run(story())


def test_one_that_was_taken_over_stops(database: str, stripe: StripeApi) -> None:
    """A process that was stopped for so long that another walks the list writes nothing over what that one knows."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_1")
        stripe.hold.clear()
        task = asyncio.create_task(shop.reconcile())
        await until(stripe.holding.is_set)
        shop.rows("UPDATE {s}.reconciles SET holder = 'another', cursor = 'evt_theirs'")
        stripe.hold.set()
        done = await task
        assert done.walks[0].error == "another process has taken over"
        assert (shop.walk()["holder"], shop.walk()["cursor"]) == ("another", "evt_theirs")
        await shop.close()

    asyncio.run(story())


def test_a_handler_that_fails_inline_is_told_and_tried_again(database: str, stripe: StripeApi) -> None:
    """P-FLOW, P-ONCE: its mates are recovered; nothing of it is stored, so the next run finds it once more."""

    async def story() -> None:
        shop = Shop(database)
        source = Stripe(SECRET, api_key=API_KEY, api_base=stripe.url)
        broken = {"evt_2"}

        @shop.inbox.endpoint("shop", source, mode="inline").on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
            if event.id in broken:
                raise ValueError(event.id)

        for number in range(4):
            stripe.add(f"evt_{number}")
        done = await shop.reconcile()
        assert done.tally == Tally(seen=4, recovered=3, failed=1)
        assert [(each.event_id, each.reason) for each in done.walks[0].unfit] == [("evt_2", "handler_failed")]
        assert shop.walk()["complete_at"] is None
        broken.clear()
        done = await shop.reconcile()
        assert (done.good, done.tally) == (True, Tally(seen=4, present=3, recovered=1))
        assert sorted(shop.effects()) == ["evt_0", "evt_1", "evt_2", "evt_3"]
        await shop.close()

    asyncio.run(story())


def test_what_has_no_effect_here_is_left(database: str, stripe: StripeApi) -> None:
    """Types without a handler, and events of the other mode, are not even counted."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe, environment="test")
        stripe.add("evt_1", type="customer.created")
        stripe.add("evt_2", livemode=True)
        stripe.add("evt_3")
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        assert shop.states() == {"waiting": 1}
        await shop.close()

    asyncio.run(story())


def test_what_is_older_than_the_provider_keeps_is_told(database: str, stripe: StripeApi) -> None:
    """As long as the list reaches back, it is asked; the rest is out of reach, and the answer is bad."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_1", ago=29 * DAY)
        done = await shop.reconcile(days=40)
        assert (done.good, done.tally) == (False, Tally(seen=1, recovered=1))
        assert done.walks[0].out_of_reach_seconds == pytest.approx(10 * DAY, abs=60)
        shop.rows("UPDATE {s}.reconciles SET complete_at = now() - interval '31 days'")
        done = await shop.reconcile(days=None)
        assert done.walks[0].out_of_reach_seconds == pytest.approx(DAY, abs=60)
        await shop.close()

    asyncio.run(story())


def test_a_worker_asks_by_itself(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """But for nothing that was sent before it first did: another receiver may have dealt with that."""
    monkeypatch.setattr(reconciler, "LOOK_SECONDS_MAX", 0.05)
    looks: list[str] = []

    def looked(schema: str) -> Any:
        looks.append(schema)
        return list_walks(schema)

    monkeypatch.setattr(reconciler, "list_walks", looked)
    caplog.set_level("INFO")

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.add("evt_before", ago=2 * DAY)
        async with shop.working():
            await until(lambda: shop.rows("SELECT 1 FROM {s}.reconciles WHERE ended_at IS NOT NULL"))
            assert shop.states() == {}
            stripe.add("evt_missed", ago=2 * 3600)
            shop.rows(
                "UPDATE {s}.reconciles SET made_at = now() - interval '1 day', ended_at = now() - interval '59 min'"
            )
            asked, before = len(stripe.asked), len(looks)
            await until(lambda: len(looks) > before + 2)
            assert len(stripe.asked) == asked
            shop.rows("UPDATE {s}.reconciles SET ended_at = now() - interval '61 min'")
            await until(lambda: shop.effects() == ["evt_missed"])
            assert len(stripe.asked) == asked + 1
        text = shop.inbox.metrics.expose()[0].decode()
        assert 'webhook_inbox_reconciled_total{endpoint="shop",result="recovered"} 1.0' in text
        assert 'webhook_inbox_reconciled_timestamp_seconds{endpoint="shop"}' in text
        await shop.close()

    asyncio.run(story())
    assert "the provider lists 1 events; 1 of them had never arrived" in caplog.text


def test_a_worker_goes_on_with_a_long_list_at_once(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the next hour, by which the cursor may be none any more."""
    monkeypatch.setattr(reconciler, "LOOK_SECONDS_MAX", 0.05)
    monkeypatch.setattr(flow, "LIST_SECONDS_MAX", 0.0)

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        stripe.page_max = 10
        for number in range(30):
            stripe.add(f"evt_{number:02}", ago=3600 + number)
        shop.rows("INSERT INTO {s}.reconciles (endpoint, made_at) VALUES ('shop', now() - interval '1 day')")
        async with shop.working():
            await until(lambda: shop.rows("SELECT 1 FROM {s}.reconciles WHERE complete_at IS NOT NULL"))
        assert len(stripe.asked) == 3
        await shop.close()

    asyncio.run(story())


def test_a_source_without_a_key_cannot_be_asked(database: str, stripe: StripeApi) -> None:
    """And says what is missing; so does a key that is none, and an address to which none should be sent."""

    async def story() -> None:
        shop = Shop(database)
        with pytest.raises(ConfigurationError, match="Stripe was given no api_key"):
            await shop.reconcile("billing")
        for given in (
            {"api_base": "http://api.example"},
            {"api_base": "https://user@api.example"},
            {"api_key": "a b\n"},
        ):
            with pytest.raises(ConfigurationError) as refused:
                Stripe(SECRET, **({"api_key": API_KEY} | given))  # type: ignore[arg-type]  # wrong on purpose
            assert API_KEY not in str(refused.value)
        with pytest.raises(ConfigurationError, match="hook"):
            GitHub(SECRET, api_key=API_KEY, hook="repos/acme/shop/hooks/../1")
        shop.stripe(stripe, accounts=lambda _: "acct_1")
        with pytest.raises(ConfigurationError, match="several ids of accounts"):
            await shop.reconcile()
        await shop.close()

    asyncio.run(story())


def test_key_and_accounts_are_asked_for_at_each_run(database: str, stripe: StripeApi) -> None:
    """So that a key can be changed, and an account come along, without a restart."""

    async def story() -> None:
        shop = Shop(database)
        accounts = ["acct_1"]

        async def key(name: str) -> str:
            assert name == "shop"
            return API_KEY

        source = Stripe(SECRET, api_key=key, api_base=stripe.url, accounts=lambda _: accounts)
        shop.inbox.endpoint("shop", source).on("*")(lambda tx, event: None)
        stripe.add("evt_1", account="acct_1")
        stripe.add("evt_2", account="acct_2")
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        accounts.append("acct_2")
        assert (await shop.reconcile()).tally == Tally(seen=2, present=1, recovered=1)
        await shop.close()

    asyncio.run(story())


def test_the_bytes_of_the_list_are_kept(database: str, stripe: StripeApi) -> None:
    """P-RAW: as the provider wrote them, byte for byte, though they came in a list."""

    async def story() -> None:
        shop = Shop(database).stripe(stripe)
        event = stripe.add("evt_1")
        raw = json.dumps(event, indent=1).replace('"livemode": false', '"livemode" :\tfalse, "big": 1e400')
        page = '{"object": "list", "data": [' + raw + '], "has_more": false}'
        stripe.troubles.append(Told(page.encode()))
        await shop.reconcile()
        (row,) = shop.rows("SELECT body FROM {s}.bodies")
        assert hashlib.sha256(row["body"]).digest() == hashlib.sha256(raw.encode()).digest()
        await shop.close()

    asyncio.run(story())
