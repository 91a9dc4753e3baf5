"""A description names events by its places, and one that cannot work stops the start."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.deliveries import delivery, secrets
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Hmac, Identity, Unreadable

KEY = "fake-hmac-key-0123456789"
BODY = b'{"id":"e1","type":"t.one","v":[1,2]}'
NO_PLACE = "must read like '$.data.id', 'header:X-Event-Id' or 'part:t', not"
NO_MEMBER = "must name a member of the signed JSON body, such as '$.data.id'"
UNSIGNED_TIME = (
    "Hmac(signed=...) must hold {timestamp} if, and only if, timestamp stands outside the body: "
    "a time that is not signed proves nothing"
)
UNSIGNED_ID = (
    "Hmac(signed=...) holds {id}: then event_id must be 'header:...', and a separator must follow {id}"
)


def make(given: object = KEY, **options: Any) -> Hmac:
    """Describe a source that reads ``X-Sig`` unless told otherwise."""
    return Hmac("acme", secrets=given, **({"header": "X-Sig"} | options))  # type: ignore[arg-type]  # for wrong ones too


def identify(source: Hmac, body: bytes, *headers: tuple[str, str]) -> tuple[Identity | Unreadable, ...]:
    """Ask for every reading of *body*."""
    return source.identify(delivery(body, headers))


def test_every_part_of_the_identity_comes_from_its_place() -> None:
    """Body and headers, nested and not."""
    source = make(
        event_id="$.meta.id",
        event_type="header:X-Topic",
        account="$.tenant",
        environment="$.mode",
        created="$.meta.at",
    )
    body = b'{"meta":{"id":17,"at":"2026-01-01T00:00:00Z"},"tenant":5,"mode":"sandbox","id":"no","type":"no"}'
    assert identify(source, body, ("x-topic", "orders/create")) == (
        Identity(
            event_id="17",
            event_type="orders/create",
            account="5",
            environment="test",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
    )
    assert source.signed_id


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b'{"tenant":"a"}', [], "no event id at header:x-event"),
        (b"{}", [("x-event", "1"), ("x-event", "2")], "no event id at header:x-event"),
        (b"{}", [("x-event", " ")], "no event id at header:x-event"),
        (b"{}", [("x-event", "x" * 256)], "event id at header:x-event is 256 characters, limit 255"),
        (b"{}", [("x-event", "1")], "no event type at $.kind"),
        (b'{"kind":"k","tenant":{}}', [("x-event", "1")], "no account at $.tenant"),
        (b"payload=%7B%7D", [("x-event", "1")], "not JSON at character 0"),
        (b"[]", [("x-event", "1")], "expected a JSON object"),
    ],
)
def test_an_authentic_body_that_names_no_event_says_where_it_was_looked_for(
    body: bytes, headers: list[tuple[str, str]], reason: str
) -> None:
    """C05, C22: quarantined, with the place in the user's own notation."""
    source = make(event_id="header:X-Event", event_type="$.kind", account="$.tenant")
    assert not source.signed_id
    assert identify(source, body, *headers) == (Unreadable(reason=reason),)


@pytest.mark.parametrize(
    ("mode", "environment"),
    [
        ("true", "live"),
        ('"live"', "live"),
        ('"production"', "live"),
        ("false", "test"),
        ('"test"', "test"),
        ('"sandbox"', "test"),
        ('"Live"', ""),
        ("1", ""),
        ("0", ""),
        ("null", ""),
        ("{}", ""),
    ],
)
def test_live_and_test_are_told_apart_or_not_at_all(mode: str, environment: str) -> None:
    """C26: never guessed."""
    body = f'{{"id":"a","type":"t","m":{mode}}}'.encode()
    assert identify(make(environment="$.m"), body) == (
        Identity(event_id="a", event_type="t", environment=environment),
    )


def test_a_batched_body_is_one_event_for_each_item() -> None:
    """Each with its own id and its own exact bytes; one that names nothing does not hold its mates."""
    source = make(items="$.events", event_type="header:X-Topic", created="$.at")
    body = b'{"id":"batch","events":[ {"id":1,"at":0} ,\n{"no":"id"}, "text", {"id":"\xc3\xa9"}]}'
    readings = identify(source, body, ("x-topic", "t"))
    assert readings == (
        Identity(event_id="1", event_type="t", created_at=datetime(1970, 1, 1, tzinfo=UTC), span=(25, 40)),
        Unreadable(reason="no event id at $.id", span=(43, 54)),
        Unreadable(reason="expected a JSON object", span=(56, 62)),
        Identity(event_id="é", event_type="t", span=(64, 75)),
    )
    assert [body[slice(*reading.span)] for reading in readings if reading.span] == [
        b'{"id":1,"at":0}',
        b'{"no":"id"}',
        b'"text"',
        b'{"id":"\xc3\xa9"}',
    ]


def test_a_batch_may_be_the_whole_body_and_a_bad_one_is_one_reading() -> None:
    """HubSpot- and SendGrid-like."""
    source = make(items="$")
    assert identify(source, b'[{"id":1,"type":"a"}]') == (
        Identity(event_id="1", event_type="a", span=(1, 20)),
    )
    assert identify(source, b"[]") == (Unreadable(reason="the array at $ is empty"),)
    assert identify(source, b'{"id":1,"type":"a"}') == (Unreadable(reason="no array at $"),)


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"header": "x y"}, "Hmac(header=...) must be the name of a header, such as 'X-Hub-Signature-256'"),
    ({"algorithm": "md5"}, "Hmac(algorithm=...) must be one of sha1, sha256, sha384, sha512"),
    ({"encoding": "HEX"}, "Hmac(encoding=...) must be one of hex, hex-upper, base64"),
    ({"key": "b64"}, "Hmac(key=...) must be one of text, base64, hex"),
    ({"timestamp_unit": "us"}, "Hmac(timestamp_unit=...) must be one of s, ms, iso"),
    (
        {"signed": "{timestamp}"},
        "Hmac(signed=...) must hold {body}: a signature that leaves the body out proves nothing",
    ),
    ({"signed": "{timestamp}.{body}"}, "Hmac(timestamp=...) must say where the signed time stands"),
    ({"tolerance_seconds": 5}, "Hmac(timestamp=...) must say where the signed time stands"),
    (
        {"timestamp": "header:x-ts", "signed": "{timestamp}.{body}"},
        "Hmac(tolerance_seconds=...) is required: how old may the signed time be?",
    ),
    (
        {"timestamp": "header:x-ts", "signed": "{timestamp}.{body}", "tolerance_seconds": 0},
        "Hmac(tolerance_seconds=...) must be a number of seconds above 0",
    ),
    (
        {"timestamp": "header:x-ts", "tolerance_seconds": 5},
        UNSIGNED_TIME,
    ),
    (
        {"timestamp": "$.at", "signed": "{timestamp}.{body}", "tolerance_seconds": 5},
        UNSIGNED_TIME,
    ),
    ({"timestamp": "$", "tolerance_seconds": 5}, f"Hmac(timestamp=...) {NO_MEMBER}"),
    ({"timestamp": "at", "tolerance_seconds": 5}, f"Hmac(timestamp=...) {NO_PLACE} 'at'"),
    (
        {"timestamp": "part:t", "signed": "{timestamp}.{body}", "tolerance_seconds": 5},
        "Hmac(separator=...) must say what separates the parts of the signature header",
    ),
    (
        {"signed": "{id}.{body}"},
        UNSIGNED_ID,
    ),
    (
        {"signed": "{body}.{id}", "event_id": "header:x-id"},
        UNSIGNED_ID,
    ),
    ({"event_id": "id", "signed": "{id}.{body}"}, f"Hmac(event_id=...) {NO_PLACE} 'id'"),
    ({"event_id": "$"}, f"Hmac(event_id=...) {NO_MEMBER}"),
    ({"event_id": "part:t"}, f"Hmac(event_id=...) {NO_MEMBER}"),
    ({"event_type": "type"}, f"Hmac(event_type=...) {NO_PLACE} 'type'"),
    ({"account": "header:x-shop"}, f"Hmac(account=...) {NO_MEMBER}"),
    ({"environment": "header:x-mode"}, f"Hmac(environment=...) {NO_MEMBER}"),
    ({"created": "$"}, f"Hmac(created=...) {NO_MEMBER}"),
    ({"items": "header:x"}, "Hmac(items=...) must name an array of the body: '$' or '$.events'"),
    ({"items": "events"}, f"Hmac(items=...) {NO_PLACE} 'events'"),
    (
        {"items": "$", "event_id": "header:x-id"},
        "Hmac(event_id=...) must be a member of the item: all items share the headers",
    ),
    ({"body_bytes_max": 0}, "Hmac(body_bytes_max=...) must be above 0"),
    ({"given": ""}, "Hmac(secrets=...): entry 1 is empty; set it to the value that the provider shows"),
    ({"given": None}, "Hmac(secrets=...) has no signing secret; give a string, a Secret, or several of them"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), SETTINGS, ids=lambda value: str(value)[:40])
def test_a_description_that_cannot_work_stops_the_start(options: dict[str, Any], message: str) -> None:
    """The text names the setting and what it should be."""
    with pytest.raises(ConfigurationError) as raised:
        make(**options)
    assert str(raised.value) == message


@pytest.mark.parametrize("provider", ["", "Acme", "1acme", "a b", "acme!", "a" * 65, "é"])
def test_the_provider_s_name_is_a_plain_word(provider: str) -> None:
    """It is a column of every key and a label of every metric."""
    with pytest.raises(
        ConfigurationError,
        match=r"^Hmac\(provider\) must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter$",
    ):
        Hmac(provider, secrets=KEY, header="x-sig")
    assert Hmac("a" * 64, secrets=KEY, header="x-sig").provider == "a" * 64
    assert Hmac("a-1_b", secrets=KEY, header="x-sig").provider == "a-1_b"


def test_the_secrets_are_settled_when_the_source_is_made() -> None:
    """Also those that can be read only once."""
    source = make(iter([KEY, "fake-other"]))
    assert [secret.label for secret in secrets(source)] == ["secret-1", "secret-2"]
    assert [secret.label for secret in secrets(source)] == ["secret-1", "secret-2"]


def test_the_defaults_are_the_careful_ones() -> None:
    """Not known to send again, a signed id, 1 MiB; SHA-256 in lower-case hex over the body."""
    source = make()
    assert (source.redelivers, source.signed_id, source.body_bytes_max) == (False, True, 1_048_576)
    assert make(redelivers=True, body_bytes_max=25).redelivers
    assert make(body_bytes_max=1).body_bytes_max == 1
    assert source.answer(delivery(BODY), secrets(source)) is None


def test_a_description_cannot_be_changed_afterwards_nor_does_it_show_its_secrets() -> None:
    """P-QUIET: a source is shared by every thread, and printed in every traceback."""
    source = make([KEY, "fake-other-secret"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.prefix = "v1="  # type: ignore[misc]  # what is tested
    assert KEY not in repr(source)
    assert "fake-other-secret" not in repr(source)
    assert KEY not in repr(secrets(source))
    assert "header='X-Sig'" in repr(source)
    assert source != make([KEY, "fake-other-secret"])


def test_a_callable_is_asked_later() -> None:
    """A secret manager may answer per delivery."""

    def ask_manager(_: object) -> str:
        return KEY

    assert make(ask_manager).secrets is ask_manager
