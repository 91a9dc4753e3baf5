"""A list of past events is read whatever is in the answer, and the key goes to the configured address alone."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import GitHub, Paddle, PayPal, Square, StandardWebhooks, Stripe
from webhook_inbox.sources.listing import Asked, Listed, Listing, Misread, Page, Request, Response
from webhook_inbox.sources.source import Identity, Unreadable

KEY = "rk_test_fake_listing_000000"
WHSEC = f"whsec_{base64.b64encode(b'fake' * 8).decode()}"
DAY_BEGINS = "2030-01-01T00%3A00%3A00Z"
PAYPAL_DAY = f"start_time={DAY_BEGINS}&end_time=2030-01-02T00%3A00%3A00Z"
SVIX_MESSAGES = "https://api.svix.com/api/v1/app/a/endpoint/e/msg"
SINCE = datetime(2030, 1, 1, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("data", "id", "guid", "event", "has_more", "request", "payload", "delivered_at"),
                    *(
                        "events",
                        "cursor",
                        "links",
                        "href",
                        "meta",
                        "pagination",
                        "next_page_url",
                        "access_token",
                    ),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def stripe() -> Listing:
    """The list of Stripe, and of an account connected to it."""
    listing = Stripe("whsec_fake", api_key=KEY, accounts=["acct_1"]).listing
    assert listing is not None
    return listing


def github() -> Listing:
    """The list of one hook."""
    listing = GitHub("fake", api_key=KEY, hook="orgs/acme/hooks/1").listing
    assert listing is not None
    return listing


def svix() -> Listing:
    """The list of one endpoint's messages."""
    listing = StandardWebhooks(WHSEC, api_key=KEY, hook="app/a/endpoint/e").listing
    assert listing is not None
    return listing


LISTINGS: dict[str, Listing | None] = {
    "stripe": stripe(),
    "stripe-thin": Stripe("whsec_fake", api_key=KEY, event_payload="thin").listing,
    "github": github(),
    "paddle": Paddle("fake", api_key=KEY).listing,
    "square": Square("fake", api_key=KEY).listing,
    "paypal": PayPal("FAKEWEBHOOK1", api_key=f"client:{KEY}").listing,
    "svix": svix(),
}


def answer(body: Any, **headers: str) -> Response:
    """A good answer with this body, as JSON where it is no bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status=200, headers=Headers(headers.items()), body=content)


def read(listing: Listing, body: Any, account: str = "", **headers: str) -> Page | Misread:
    """What is read of a page."""
    return listing.read(asked(account), answer(body, **headers))


def asked(account: str = "") -> Asked:
    """A day of one list."""
    return Asked(key=KEY, account=account, since=SINCE, until=SINCE + timedelta(days=1))


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
@given(
    body=st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()),
    link=st.text(max_size=30),
)
def test_any_answer_is_read_or_misread(listing: Listing, body: bytes, link: str) -> None:
    """P-CALM: bytes in, a value out; what an event's own request is answered, too."""
    for account in ("", "acct_1"):
        page = read(listing, body, account, link=link)
        assert isinstance(page, Page | Misread)
    listed = Listed(reading=Unreadable(reason="fake"), listed_at=None)
    assert listing.copy(listed, answer(body)) is None
    assert isinstance(listing.token(answer(body)), Misread)


def test_stripe_is_asked_as_it_documents() -> None:
    """Path, page size, since, cursor, key and account."""
    request = stripe().page(asked("acct_1"), "evt_1&x=y")
    parts = urlsplit(request.url)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "api.stripe.com", "/v1/events")
    assert parse_qs(parts.query) == {
        "limit": ["100"],
        "created[gte]": [str(int(SINCE.timestamp()))],
        "starting_after": ["evt_1&x=y"],
    }
    assert dict(request.headers) == {"authorization": f"Bearer {KEY}", "stripe-account": "acct_1"}
    assert "stripe-account" not in dict(stripe().page(asked(), "").headers)
    assert KEY not in repr(request)


def test_an_event_of_a_connected_account_says_whose_it_is() -> None:
    """As its delivery does; what says so itself, and what is none, is left as it is."""
    event = {"id": "evt_1", "object": "event", "type": "a", "livemode": True, "amount": 12345678901234567890}
    body = {"data": [event, event | {"account": None}, event | {"account": "acct_2"}, [1]], "has_more": False}
    page = read(stripe(), body, "acct_1")
    assert isinstance(page, Page)
    accounts = [each.reading.account for each in page.listed if isinstance(each.reading, Identity)]
    assert accounts == ["acct_1", "acct_1", "acct_2"]
    assert isinstance(page.listed[3].reading, Unreadable)
    assert page.listed[0].delivery is not None
    assert json.loads(page.listed[0].delivery.body) == event | {"account": "acct_1"}


def test_a_thin_event_of_a_connected_account_says_so_in_its_context() -> None:
    """Which is its account here and in the delivery; one that says another is left as it is."""
    event = {"id": "evt_1", "object": "v2.core.event", "type": "a", "context": None}
    listing = LISTINGS["stripe-thin"]
    assert listing is not None
    page = read(listing, {"data": [event, event | {"context": "acct_2"}], "next_page_url": None}, "acct_1")
    assert isinstance(page, Page)
    accounts = [each.reading.account for each in page.listed if isinstance(each.reading, Identity)]
    assert accounts == ["acct_1", "acct_2"]


def test_github_is_asked_as_it_documents() -> None:
    """Path, page size, cursor, key and version; another host in ``Link`` is not asked, only its cursor is taken."""
    first = {"id": 7, "guid": "g-1", "delivered_at": "2030-01-02T00:00:00Z", "event": "push", "action": None}
    link = '<https://evil.example/?cursor=v1_9%26>; rel="next", <https://evil.example/>; rel="first"'
    page = read(github(), [first], link=link)
    assert isinstance(page, Page)
    request = github().page(asked(), page.following)
    assert request.url == "https://api.github.com/orgs/acme/hooks/1/deliveries?per_page=100&cursor=v1_9%26"
    assert dict(request.headers)["authorization"] == f"Bearer {KEY}"
    (listed,) = page.listed
    assert isinstance(listed.request, Request)
    assert listed.request.url == "https://api.github.com/orgs/acme/hooks/1/deliveries/7"
    assert isinstance(listed.reading, Identity)
    assert (listed.reading.event_id, listed.reading.event_type) == ("g-1", "push")


def test_github_is_asked_no_further_than_needed() -> None:
    """A page on which every try is older is the last; one is not enough, since redeliveries stand among the others."""
    old = {"id": 1, "guid": "g-1", "delivered_at": "2029-12-31T23:59:59Z", "event": "push"}
    new = old | {"delivered_at": "2030-01-01T00:00:00Z"}
    link = '<https://api.github.com/?cursor=more>; rel="next"'
    for tries, following in (([old, old], ""), ([old, new], "more"), ([old | {"delivered_at": "?"}], "more")):
        page = read(github(), tries, link=link)
        assert isinstance(page, Page)
        assert page.following == following


@pytest.mark.parametrize("address", ["http://[bad?cursor=more", "https://api.github.com/?page=2", ""])
def test_a_list_of_github_s_that_goes_on_nowhere_is_misread(address: str) -> None:
    """P-CALM: it is not taken for one that has ended."""
    new = {"id": 1, "guid": "g-1", "delivered_at": "2030-01-01T00:00:00Z", "event": "push"}
    page = read(github(), [new], link=f'<{address}>; rel="next"')
    assert page == Misread("the next page has no address")


def test_the_copy_of_a_delivery_has_its_payload_byte_for_byte() -> None:
    """And the headers that name it; neither a signature, which is not of these bytes, nor a content type of forms."""
    page = read(
        github(), [{"id": 7, "guid": "g-1", "delivered_at": "", "event": "issues", "action": "opened"}]
    )
    assert isinstance(page, Page)
    (listed,) = page.listed
    raw = b'{"action":"opened", "weight": 1.50}'
    headers = b'{"X-Hub-Signature-256": "sha256=00", "Content-Type": "x-form", "X-GitHub-Hook-ID": "1", "X-None": null}'
    body = b'{"id": 7, "request": {"headers": %b, "payload": %b}, "response": {}}'
    copy = github().copy(listed, answer(body % (headers, raw)))
    assert copy is not None
    assert copy.body == raw
    assert dict(copy.headers) == {
        "content-type": "application/json",
        "x-github-event": "issues",
        "x-github-delivery": "g-1",
        "x-github-hook-id": "1",
    }
    assert github().copy(listed, answer(body % (headers, b"null"))) is None


@pytest.mark.parametrize(
    ("name", "cursor", "url", "headers", "body"),
    [
        (
            "stripe-thin",
            "",
            "https://api.stripe.com/v2/core/events?limit=100&created%5Bgte%5D=2030-01-01T00%3A00%3A00Z",
            {"stripe-version": "2026-10-28.endive", "stripe-context": "acct_1"},
            None,
        ),
        (
            "stripe-thin",
            "page=abc&limit=100",
            "https://api.stripe.com/v2/core/events?page=abc&limit=100",
            {"stripe-version": "2026-10-28.endive", "stripe-context": "acct_1"},
            None,
        ),
        (
            "paddle",
            "evt_1&x",
            "https://api.paddle.com/events?per_page=200&order_by=id%5BDESC%5D&after=evt_1%26x",
            {"paddle-version": "1"},
            None,
        ),
        (
            "square",
            "abc=",
            "https://connect.squareup.com/v2/events",
            {"content-type": "application/json"},
            {
                "limit": 100,
                "query": {
                    "filter": {
                        "created_at": {"start_at": "2030-01-01T00:00:00Z", "end_at": "2030-01-02T00:00:00Z"}
                    },
                    "sort": {"field": "DEFAULT", "order": "DESC"},
                },
                "cursor": "abc=",
            },
        ),
        (
            "paypal",
            "",
            "https://api-m.paypal.com/v1/notifications/webhooks-events?page_size=100&" + PAYPAL_DAY,
            {"content-type": "application/json"},
            None,
        ),
        (
            "svix",
            "iter_1&x",
            f"{SVIX_MESSAGES}?limit=250&with_content=true&after={DAY_BEGINS}&iterator=iter_1%26x",
            {"accept": "application/json"},
            None,
        ),
    ],
)
def test_each_list_is_asked_as_its_provider_documents(
    name: str, cursor: str, url: str, headers: dict[str, str], body: Any
) -> None:
    """Path, page size, since, cursor, versions and key; and neither key nor what is posted is printed."""
    listing = LISTINGS[name]
    assert listing is not None
    request = listing.page(asked("acct_1"), cursor)
    assert request.url == url
    assert dict(request.headers) == {"authorization": f"Bearer {KEY}", **headers}
    assert (None if request.body is None else json.loads(request.body)) == body
    assert KEY not in repr(request) + repr(asked())


def test_paypal_is_shown_a_token_for_the_secret_of_the_app() -> None:
    """Asked for with both of its parts, of the API of the environment that is configured."""
    sandbox = PayPal("FAKEWEBHOOK1", api_key="client:secret", environment="test").listing
    assert sandbox is not None
    request = sandbox.sign_in("client:secret")
    assert request is not None
    assert request.url == "https://api-m.sandbox.paypal.com/v1/oauth2/token"
    assert request.body == b"grant_type=client_credentials"
    assert dict(request.headers)["authorization"] == "Basic Y2xpZW50OnNlY3JldA=="
    assert sandbox.token(answer({"access_token": "fake", "expires_in": 1})) == "fake"
    assert all(each.sign_in(KEY) is None for name, each in LISTINGS.items() if each and name != "paypal")
    for token in ("", "two\nlines", "\N{SNOWMAN}"):
        assert isinstance(sandbox.token(answer({"access_token": token})), Misread)


@pytest.mark.parametrize("name", ["stripe-thin", "paypal"])
def test_of_the_next_page_s_address_the_query_alone_is_used(name: str) -> None:
    """P-QUIET: the key goes to the configured host, wherever the answer points."""
    listing = LISTINGS[name]
    assert listing is not None
    for address, following in (
        ("https://evil.example/elsewhere?page=2&x=%26", "page=2&x=%26"),
        ("/v2/core/events?page=2", "page=2"),
        ("", ""),
    ):
        links = [{"href": "?self", "rel": "self"}, {"href": address, "rel": "next"}]
        page = read(listing, {"data": [], "events": [], "next_page_url": address, "links": links})
        assert isinstance(page, Page)
        assert page.following == following
    for address in ("https://[evil?page=2", "?page=2 HTTP/1.1", "?\N{SNOWMAN}", "https://evil.example/"):
        links = [{"href": address, "rel": "next"}]
        page = read(listing, {"data": [], "events": [], "next_page_url": address, "links": links})
        assert page == Misread("the next page has no address")


def test_paddle_is_asked_no_further_than_needed() -> None:
    """A page on which everything is older is the last; so is one that says so."""
    old = {"event_id": "evt_1", "event_type": "a", "occurred_at": "2029-12-31T23:59:59Z"}
    new = old | {"event_id": "evt_2", "occurred_at": "2030-01-01T00:00:00Z"}
    paddle = LISTINGS["paddle"]
    assert paddle is not None
    for events, more, following in (([old], True, ""), ([new, old], True, "evt_1"), ([new], False, "")):
        page = read(paddle, {"data": events, "meta": {"pagination": {"has_more": more}}})
        assert isinstance(page, Page)
        assert page.following == following


def test_what_cannot_be_asked_is_refused_when_it_is_configured() -> None:
    """A part of a key, half of what is needed, an endpoint that is none: each by name, and never the value."""
    for refused, make in (
        ("PayPal.api_key", lambda: PayPal("FAKEWEBHOOK1", api_key=KEY)),
        ("PayPal.api_key", lambda: PayPal("FAKEWEBHOOK1", api_key=f"{KEY}:")),
        ("StandardWebhooks.api_key=..., hook", lambda: StandardWebhooks(WHSEC, api_key=KEY)),
        ("StandardWebhooks.hook", lambda: StandardWebhooks(WHSEC, api_key=KEY, hook="app/a/endpoint/../b")),
        ("Stripe.event_payload", lambda: Stripe("whsec_fake", event_payload="fat")),  # type: ignore[arg-type]
        ("Square.api_base", lambda: Square("fake", api_key=KEY, api_base="http://api.example")),
        ("Paddle.api_base", lambda: Paddle("fake", api_key=KEY, api_base="https://me@api.example")),
        ("Paddle.api_base", lambda: Paddle("fake", api_key=KEY, api_base="https://api.example:65536")),
        ("Paddle.api_base", lambda: Paddle("fake", api_key=KEY, api_base="https://[::1")),
    ):
        with pytest.raises(ConfigurationError, match=refused) as error:
            make()
        assert KEY not in str(error.value)


def test_the_catalogue_says_how_far_back_each_is_asked() -> None:
    """As far as its list reaches; where a receiver has the key of no list by itself, it says nothing."""
    for listing, source in (
        *((LISTINGS[name], Stripe) for name in ("stripe", "stripe-thin")),
        *((LISTINGS[each.provider], each) for each in (GitHub, Paddle, Square, PayPal)),
    ):
        assert listing is not None
        assert source.facts.past_events.seconds == listing.window_seconds
    assert StandardWebhooks.facts.past_events.seconds is None


def test_a_message_of_svix_has_its_type_where_the_source_looks_for_it() -> None:
    """Where a delivery has it in a header, the copy has it there, too: else all that arrived would be quarantined."""
    listing = StandardWebhooks(
        WHSEC, event_type="header:X-Type", api_key=KEY, hook="app/a/endpoint/e"
    ).listing
    assert listing is not None
    message = {"id": "msg_1", "timestamp": DAY_BEGINS, "eventType": "invoice.paid", "payload": {"total": 1}}
    page = read(listing, {"data": [message], "done": True})
    assert isinstance(page, Page)
    reading = page.listed[0].reading
    assert isinstance(reading, Identity)
    assert (reading.event_id, reading.event_type) == ("msg_1", "invoice.paid")


def test_a_list_of_svix_that_goes_on_nowhere_is_none() -> None:
    """P-FIND: it is not taken for one that is at its end."""
    for rest in ({"iterator": None}, {}):
        page = read(svix(), {"data": [], "done": False, **rest})
        assert page == Misread("there is more, but nothing says where")
