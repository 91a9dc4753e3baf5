"""P-FIND, for every provider that lists its events: whatever differs between the lists, the promise is the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.provider_apis import API_KEY, GitHubApi, Told, served
from tests.fixtures.provider_lists import LIST_APIS, ListApi, PayPalApi, SvixApi
from tests.fixtures.queue import EFFECTS, Queue
from webhook_inbox import Outcome
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.reconciled import Reconciled, Tally
from webhook_inbox.protocol import asking as pauses
from webhook_inbox.testing.deliveries import believe_test_keys, signed

DAY = 86_400.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "_FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture(params=LIST_APIS)
def api(request: pytest.FixtureRequest) -> Iterator[ListApi]:
    """Each provider, on loopback."""
    with served(made := LIST_APIS[request.param]()):
        yield made


@pytest.fixture
def paypal() -> Iterator[PayPalApi]:
    """PayPal, on loopback."""
    with served(made := PayPalApi()):
        yield made


class Shop(Queue):
    """An inbox whose endpoint ``shop`` asks *api*, and has an effect for each event."""

    def __init__(self, dsn: str, api: ListApi) -> None:
        super().__init__(dsn)
        self.rows(EFFECTS)
        self.api = api
        self.source = api.source()
        self.secret = believe_test_keys(self.source)

        @self.inbox.endpoint("shop", self.source, mode="queued").on("*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("INSERT INTO effects (event_id, note) VALUES (%s, %s)", [event.id, event.origin])

    async def arrives(self, event: dict[str, Any]) -> Receipt:
        """Deliver *event* as the provider does."""
        body, event_id = self.api.delivered(event)
        made = signed(self.source, body, id=event_id, secret=self.secret)
        return await self.inbox.receive("shop", headers=made.headers, body=made.body)

    async def reconcile(self, days: float | None = 3, **given: Any) -> Reconciled:
        """Reconcile, within a bounded time."""
        since = None if days is None else days * DAY
        return await asyncio.wait_for(self.inbox.reconcile("shop", since_seconds=since, **given), 60)


def test_each_event_of_a_list_has_its_effect_once(
    database: str, api: ListApi, caplog: pytest.LogCaptureFixture
) -> None:
    """P-FIND, P-DUP: pages in disorder, errors between them, copy before delivery or after it, some late: all once."""
    caplog.set_level("DEBUG")

    async def story() -> None:
        shop = Shop(database, api)
        chance = random.Random(7)
        api.page_max = 10
        api.order = lambda page: chance.sample(page, len(page))
        api.troubles.extend([Told(status=429, headers={"Retry-After": "0"}), Told(b"<html>", status=502)])
        events = [api.add(f"evt_{number:02}", ago=120 + number * 3600) for number in range(35)]
        for event in events[::2]:
            assert (await shop.arrives(event)).outcome is Outcome.QUEUED
        assert (await shop.reconcile(dry_run=True)).tally == Tally(seen=35, present=18, recovered=17)
        done = await shop.reconcile()
        assert (done.good, done.tally) == (True, Tally(seen=35, present=18, recovered=17))
        for event in events:
            again = await shop.arrives(event)
            assert (again.outcome, again.results[0].conflicting) == (Outcome.DUPLICATE, False)
        events.append(api.add("evt_late", ago=2 * DAY))
        assert (await shop.reconcile(days=None)).tally == Tally(seen=36, present=35, recovered=1)
        await shop.drain()
        assert len(shop.effects()) == len(set(shop.effects())) == len(events)
        notes = shop.rows("SELECT note, count(*) AS number FROM effects GROUP BY note ORDER BY note")
        assert [(row["note"], row["number"]) for row in notes] == [("delivery", 18), ("reconcile", 18)]
        assert shop.rows("SELECT 1 FROM {s}.conflicts") == []
        stored = shop.rows("SELECT body, headers FROM {s}.bodies"), shop.rows("SELECT * FROM {s}.reconciles")
        assert API_KEY not in f"{stored!r} {done!r} {caplog.text}"
        await shop.close()

    asyncio.run(story())


def test_a_run_that_was_interrupted_goes_on_where_it_was(database: str, api: ListApi) -> None:
    """The provider fails at the third page; the next run asks for that page, and for none before it."""

    async def story() -> None:
        shop = Shop(database, api)
        api.page_max = 5
        for number in range(20):
            api.add(f"evt_{number:02}", ago=3600 + number)
        right, pages = api.page, []

        def fails_at_the_third(*asked: Any) -> Any:
            pages.append(asked)
            return right(*asked)

        api.page = fails_at_the_third  # type: ignore[method-assign, assignment]
        heard = api.heard
        api.heard = lambda *asked: heard(*asked) if len(pages) < 2 else Told(status=500)  # type: ignore[method-assign]
        first = await shop.reconcile()
        assert (first.good, first.walks[0].error) == (False, "it answers 500")
        assert first.tally == Tally(seen=10, recovered=10)
        api.heard = heard  # type: ignore[method-assign]
        pages.clear()
        resumed = await shop.reconcile()
        assert (resumed.good, resumed.tally) == (True, Tally(seen=20, recovered=20))
        assert len(pages) == 2
        await shop.close()

    asyncio.run(story())


def test_an_answer_that_is_none_of_the_provider_s_is_told_in_our_words(database: str, api: ListApi) -> None:
    """P-QUIET, P-CALM: nothing of it is shown, nothing is lost, and a redirect is not followed."""

    async def story() -> None:
        shop = Shop(database, api)
        api.add("evt_1")
        for trouble, error in (
            (Told(b"{" + API_KEY.encode()), "the answer is no "),
            (Told({"error": API_KEY}, 403), "it answers 403: the api_key is not (or no longer) allowed"),
            (Told(status=302, headers={"Location": elsewhere.url}), "it answers 302"),
        ):
            api.troubles.append(trouble)
            done = await shop.reconcile()
            assert not done.good
            assert done.walks[0].error.startswith(error)
            assert API_KEY not in repr(done)
        assert elsewhere.asked == []
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        await shop.close()

    with served(elsewhere := GitHubApi()):
        asyncio.run(story())


def test_what_is_older_than_a_list_reaches_is_told(database: str, api: ListApi) -> None:
    """The answer is bad, and says by how much; what is within reach is taken in."""

    async def story() -> None:
        shop = Shop(database, api)
        assert shop.source.listing is not None
        days = shop.source.listing.window_seconds / DAY
        api.add("evt_1", ago=(days - 0.5) * DAY)
        done = await shop.reconcile(days=days + 2)
        assert (done.good, done.tally) == (False, Tally(seen=1, recovered=1))
        assert done.walks[0].out_of_reach_seconds == pytest.approx(2 * DAY, abs=60)
        await shop.close()

    asyncio.run(story())


def test_paypal_is_asked_with_a_token_that_is_asked_for_at_each_run(database: str, paypal: PayPalApi) -> None:
    """One that is none is told, before anything is asked with it."""

    async def story() -> None:
        shop = Shop(database, paypal)
        paypal.add("WH-1")
        paypal.troubles.append(Told({"access_token": "two\nlines"}))
        assert (await shop.reconcile()).walks[0].error == "the answer is no token"
        (row,) = shop.rows("SELECT last_error FROM {s}.reconciles")
        assert row["last_error"] == "the answer is no token"
        assert paypal.asked == ["/v1/oauth2/token"]
        assert (await shop.reconcile()).tally == Tally(seen=1, recovered=1)
        assert [each.partition("?")[0] for each in paypal.asked[1:]] == [
            "/v1/oauth2/token",
            "/v1/notifications/webhooks-events",
        ]
        await shop.close()

    asyncio.run(story())


def test_a_message_whose_content_svix_has_forgotten_is_out_of_reach(database: str) -> None:
    """It is named, and nothing is taken in for it; one that is here is present all the same."""

    async def story() -> None:
        shop = Shop(database, svix)
        here, gone = svix.add("msg_here"), svix.add("msg_gone")
        await shop.arrives(here)
        here["payload"] = gone["payload"] = {"expired": True}
        svix.add("msg_whole")
        done = await shop.reconcile()
        assert done.tally == Tally(seen=3, present=1, recovered=1, out_of_reach=1)
        (unfit,) = done.walks[0].unfit
        assert (unfit.event_id, unfit.reason) == ("msg_gone", "the provider has not kept its content")
        await shop.drain()
        assert sorted(shop.effects()) == ["msg_here", "msg_whole"]
        await shop.close()

    with served(svix := SvixApi()):
        asyncio.run(story())
