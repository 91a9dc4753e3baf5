"""Telegram and Postmark sign nothing: the secret that comes along is compared whole, and never stored."""

from __future__ import annotations

import base64

import pytest

from tests.deliveries import delivery, verdict
from tests.source_examples import POSTMARK, POSTMARK_OPEN, TELEGRAM, digest
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import SECRET_HEADERS
from webhook_inbox.sources import Identity, Postmark, Rejected, Telegram, Unreadable, Verified

TOKEN, LOGIN = "fake-telegram_token-1", "fake-user:fake:password"
HEADER = "x-telegram-bot-api-secret-token"


def basic(text: str) -> str:
    """Spell credentials."""
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_telegram_s_token_is_compared_byte_for_byte() -> None:
    """No blank, no letter case, no second header."""
    source = Telegram(["fake-old", TOKEN])
    assert verdict(source, delivery(TELEGRAM, [(HEADER, TOKEN)])) == Verified("secret-2")
    for sent in ([], [TOKEN.upper()], [f"{TOKEN} "], [TOKEN[:-1]], [TOKEN, TOKEN], ["é"], [""]):
        assert isinstance(verdict(source, delivery(TELEGRAM, [(HEADER, each) for each in sent])), Rejected)
    assert source.secret_headers == {HEADER}


@pytest.mark.parametrize("token", ["with space", "é", "a" * 257, "colon:"])
def test_a_token_that_telegram_would_not_take_stops_the_start(token: str) -> None:
    """Telegram refuses it, so no delivery could carry it."""
    with pytest.raises(ConfigurationError, match="no secret_token of 1 to 256"):
        Telegram(token)


@pytest.mark.parametrize(
    ("body", "reading"),
    [
        (TELEGRAM, Identity(event_id="10000", event_type="message")),
        (b'{"update_id":1,"callback_query":{}}', Identity(event_id="1", event_type="callback_query")),
        (b'{"update_id":1}', Unreadable(reason="no event type at the member beside update_id")),
        (b'{"update_id":1,"a":1,"b":2}', Unreadable(reason="no event type at the member beside update_id")),
        (b'{"message":{}}', Unreadable(reason="no event id at $.update_id")),
        (b'{"update_id":1.5,"message":{}}', Unreadable(reason="no event id at $.update_id")),
        (b"[]", Unreadable(reason="expected a JSON object")),
        (b"", Unreadable(reason="not JSON at character 0")),
    ],
)
def test_an_update_is_named_by_its_number_and_the_member_beside_it(
    body: bytes, reading: Identity | Unreadable
) -> None:
    """An update without exactly one such member is kept and shown."""
    assert Telegram(TOKEN).identify(delivery(body)) == (reading,)


def test_postmark_s_login_is_compared_byte_for_byte() -> None:
    """RFC 7617: the password may hold colons; what is refused hears 401, after which Postmark sends again."""
    source = Postmark(LOGIN)
    assert verdict(source, delivery(POSTMARK, [("Authorization", basic(LOGIN))])) == Verified("secret-1")
    for sent in (
        [],
        [basic("fake-user:no")],
        [basic(LOGIN).lower()],
        [basic(LOGIN).removeprefix("Basic ")],
        [f"{basic(LOGIN)} "],
        [basic(LOGIN).rstrip("=")],
        ["Bearer x"],
        ["Basic"],
        ["Basic \xe9"],
        [basic(LOGIN)] * 2,
    ):
        got = verdict(source, delivery(POSTMARK, [("Authorization", each) for each in sent]))
        assert isinstance(got, Rejected)
        assert got.status == 401
    assert "authorization" in SECRET_HEADERS


@pytest.mark.parametrize("login", ["user", "user:", ":password"])
def test_a_login_without_user_or_password_stops_the_start(login: str) -> None:
    """It would be in no URL."""
    with pytest.raises(ConfigurationError, match="not of the form user:password"):
        Postmark(login)


@pytest.mark.parametrize(
    ("body", "reading"),
    [
        (POSTMARK, Identity(event_id="42", event_type="Bounce")),
        (POSTMARK_OPEN, Identity(event_id=digest(POSTMARK_OPEN), event_type="Open")),
        (b'{"RecordType":"Bounce","MessageID":"m"}', Unreadable(reason="no event id at $.ID")),
        (b'{"MessageID":"m"}', Unreadable(reason="no event type at $.RecordType")),
        (b'{"FromFull":{"Email":"a@b"},"MessageID":"m"}', Identity(event_id="m", event_type="Inbound")),
        (b'{"FromFull":{"Email":"a@b"}}', Unreadable(reason="no event id at $.MessageID")),
    ],
)
def test_a_bounce_and_a_mail_that_comes_in_have_ids(body: bytes, reading: Identity | Unreadable) -> None:
    """Elsewhere ``MessageID`` is the mail's that the event is about: it would drop every later event about it."""
    assert Postmark(LOGIN).identify(delivery(body)) == (reading,)
