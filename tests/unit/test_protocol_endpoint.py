"""What an endpoint refuses when it is opened, and what it answers about itself."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from typing import Any

import pytest

from webhook_inbox.errors import ConfigurationError, PayloadError
from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.sources import StandardWebhooks, Stripe

SECRET = "whsec_fake_endpoint_000000"


class Silent(Stripe):
    """A provider that never sends again."""

    provider = "silent"
    redelivers = False


def plan(**given: Any) -> EndpointPlan:
    """An endpoint that is fine but for what is given."""
    fine: dict[str, Any] = {
        "name": "billing",
        "source": Stripe(SECRET),
        "mode": "inline",
        "settings": Settings(),
    }
    return EndpointPlan(**fine | given)


def event(body: bytes = b'{"data": {"object": {"id": "in_1", "n": 7, "none": null}}}') -> Event:
    """An event of an invoice."""
    return Event(provider="stripe", endpoint="billing", id="evt_1", type="invoice.paid", body=body)


@pytest.mark.parametrize("name", ["a", "9", "billing", "a.b_c~d-e", "A" * 100])
def test_a_name_that_is_a_path_segment_is_taken(name: str) -> None:
    """Letters, digits and a few marks, up to a hundred."""
    assert plan(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "a" * 101, "a/b", "a b", ".hidden", "-a", "_a", "a%2f", "a\n", "ä", "..", None, b"a", 1]
)
def test_any_other_name_is_refused(name: Any) -> None:
    """It is part of the URL and of every event key, so it must mean one thing only."""
    with pytest.raises(ConfigurationError, match="is no path segment") as raised:
        plan(name=name)
    assert repr(name) in str(raised.value)


@pytest.mark.parametrize("source", [None, "stripe", Stripe])
def test_what_is_no_source_is_refused_by_its_type(source: Any) -> None:
    """The text says where sources are found."""
    with pytest.raises(
        ConfigurationError,
        match=f"^endpoint billing: {type(source).__name__} is no source; see webhook_inbox.sources$",
    ):
        plan(source=source)


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("mode", "inline, queued, hybrid"),
        ("unhandled", "record, drop, refuse"),
        ("keep", "body, digest"),
        ("dead_head", "hold, skip"),
        ("redelivered_dead", "report, revive"),
    ],
)
@pytest.mark.parametrize("given", ["other", "", None, "Inline"])
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(
    setting: str, allowed: str, given: Any
) -> None:
    """Endpoint, setting, what was given, and what may be given."""
    expected = f"endpoint billing: {setting} is {given!r}; it must be one of {allowed}"
    with pytest.raises(ConfigurationError, match=f"^{re.escape(expected)}$"):
        plan(**{setting: given})


@pytest.mark.parametrize(
    "given",
    [
        {"unhandled": "drop"},
        {"unhandled": "refuse"},
        {"mode": "queued", "dead_head": "skip", "redelivered_dead": "revive"},
        {"mode": "hybrid"},
        {"mode": "queued", "order_by": "data.object.id"},
        {"keep": "digest", "keep_fields": ("data.object.id",)},
        {"keep": "digest"},
    ],
)
def test_every_choice_that_exists_is_taken(given: dict[str, Any]) -> None:
    """What the documentation names works."""
    made = plan(**given)
    assert {name: getattr(made, name) for name in given} == given


@pytest.mark.parametrize("mode", ["inline", "hybrid"])
def test_order_is_refused_where_there_is_none_to_keep(mode: str) -> None:
    """Requests come side by side; only a worker can wait for the one before."""
    with pytest.raises(ConfigurationError, match='^endpoint billing: order_by needs mode="queued"'):
        plan(mode=mode, order_by="data.object.id")


def test_inline_is_refused_where_the_provider_never_sends_again() -> None:
    """P-ONCE: without a redelivery, an inline handler that fails once would lose the event."""
    sentence = '^endpoint billing: silent does not send again after a fail.*; use mode="queued", or "hybrid"$'
    with pytest.raises(ConfigurationError, match=sentence):
        plan(source=Silent(SECRET))
    assert plan(source=Silent(SECRET), mode="queued").source.provider == "silent"


def test_fields_to_keep_are_refused_where_everything_is_kept() -> None:
    """A setting without effect is a mistake."""
    with pytest.raises(
        ConfigurationError, match='^endpoint billing: keep_fields is for keep="digest"; keep='
    ):
        plan(keep_fields=("id",))


def test_the_largest_body_is_the_settings_or_else_the_sources() -> None:
    """0 means the source's own default."""
    assert plan().body_bytes_max == Stripe.body_bytes_max
    assert plan(settings=Settings(body_bytes_max=7)).body_bytes_max == 7


def test_a_dead_head_holds_its_key_as_long_as_was_asked() -> None:
    """``skip`` holds nothing; ``hold`` without a limit holds until an operator acts."""
    assert plan(dead_head="skip", settings=Settings(hold_seconds_max=60)).hold_seconds == 0
    assert plan(dead_head="hold", settings=Settings(hold_seconds_max=60)).hold_seconds == 60
    assert plan(dead_head="hold").hold_seconds >= 86_400 * 365 * 50


def test_secrets_are_checked_when_they_are_given_and_when_they_are_asked_for() -> None:
    """A constant secret is checked at once, that of a callable when it answers; the text names the endpoint."""
    (secret,) = plan().given_secrets()  # type: ignore[misc]  # constant secrets are no callable
    assert secret.reveal() == SECRET
    asked = plan(source=Stripe(lambda delivery: SECRET))
    assert callable(asked.given_secrets())
    (answered,) = asked.checked_secrets([SECRET])
    assert answered.reveal() == SECRET
    with pytest.raises(ConfigurationError, match="endpoint billing: secrets"):
        asked.checked_secrets(None)
    with pytest.raises(ConfigurationError, match="secret API key") as raised:
        asked.checked_secrets("sk_live_fake")
    assert "sk_live_fake" not in str(raised.value)


@pytest.mark.parametrize(
    ("order_by", "key"),
    [
        (None, None),
        ("data.object.id", "in_1"),
        ("data.object.n", "7"),
        ("data.object.none", None),
        ("data.object.missing", None),
        ("data.object.id.deeper", None),
        (lambda event: event.id, "evt_1"),
        (lambda event: 42, "42"),
        (lambda event: None, None),
        (lambda event: "", ""),
    ],
)
def test_an_order_key_is_a_path_or_a_function(order_by: Any, key: str | None) -> None:
    """What leads nowhere gives no key: the event keeps no order."""
    assert plan(mode="queued", order_by=order_by).order_key(event()) == key


def test_a_long_or_unstorable_order_key_is_kept_by_its_digest() -> None:
    """Keys are indexed text: up to 200 characters as they are, the rest as good by their SHA-256."""

    def keyed(text: str) -> str | None:
        return plan(mode="queued", order_by=lambda event: text).order_key(event())

    assert keyed("k" * 200) == "k" * 200
    for text, written in [
        ("k" * 201, b"k" * 201),
        ("a\x00b", b"a\x00b"),
        ("\ud800" * 201, b"?" * 201),
    ]:
        assert keyed(text) == f"sha256:{sha256(written).hexdigest()}"


def test_an_order_key_of_an_unreadable_body_is_none_and_a_failing_function_is_named() -> None:
    """P-QUIET: the endpoint and the kind of failure are told, never what the function said."""
    assert plan(mode="queued", order_by="id").order_key(event(b"no json")) is None

    def reads(event: Event) -> object:
        raise PayloadError("unreadable")

    def fails(event: Event) -> object:
        raise KeyError("a customer's name")

    assert plan(mode="queued", order_by=reads).order_key(event()) is None
    with pytest.raises(ConfigurationError, match="^endpoint billing: order_by failed: .*KeyError") as raised:
        plan(mode="queued", order_by=fails).order_key(event())
    assert "customer" not in str(raised.value)
    assert isinstance(raised.value.__cause__, KeyError)


def test_kept_fields_are_those_that_lead_somewhere() -> None:
    """A path that leads nowhere is left out; null is a value; without fields the body is not even read."""
    body = b'{"id": "evt_1", "data": {"object": {"id": "in_1", "none": null, "list": [1]}}}'
    paths = ("id", "data.object.id", "data.object.none", "data.object.missing", "data.object.list.0", "x.y")
    assert plan(keep="digest", keep_fields=paths).kept_fields(Headers(), body) == {
        "id": "evt_1",
        "data.object.id": "in_1",
        "data.object.none": None,
    }
    assert plan(keep="digest").kept_fields(Headers(), b"no json") == {}


def test_a_key_outlives_the_list_that_is_asked() -> None:
    """P-KEEP: what a list still shows is known; a list that only the sender can ask is not waited for."""
    secret = f"whsec_{base64.b64encode(b'fake' * 8).decode()}"
    short = Settings(key_days=89.0, payload_days=1.0)
    asked = StandardWebhooks(secret, api_key="fake", hook="app/a/endpoint/e")
    with pytest.raises(ConfigurationError, match="missed events of 90 days"):
        plan(source=asked, settings=short)
    assert plan(source=asked, settings=Settings(key_days=90.0)).settings.key_days == 90.0
    assert plan(source=StandardWebhooks(secret), settings=short).settings.key_days == 89.0
