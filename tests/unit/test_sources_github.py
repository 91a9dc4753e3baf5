"""GitHub is believed when it signed; its events are named by headers that it did not sign."""

from __future__ import annotations

import pytest

from tests.deliveries import delivery, secrets, verdict
from tests.source_examples import FORM, GITHUB_FORM
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import GitHub, Identity, Rejected, Unreadable, Verified
from webhook_inbox.testing.signing import sign_hmac

SECRET = "fake-github-secret"
SOURCE = GitHub(SECRET)
GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


def sent(
    body: bytes, event: str = "issues", *more: tuple[str, str], guid: str = GUID
) -> list[tuple[str, str]]:
    """Give the headers of a delivery."""
    named = [("X-GitHub-Event", event), ("X-GitHub-Delivery", guid)]
    return [*named, *more, *sign_hmac(body, SECRET, "X-Hub-Signature-256", prefix="sha256=")]


def identify(body: bytes, headers: list[tuple[str, str]]) -> Identity | Unreadable:
    """Ask for the one reading."""
    (reading,) = SOURCE.identify(delivery(body, headers))
    return reading


def test_what_github_says_of_itself() -> None:
    """It never sends again, signs no id, and sends up to 25 MiB."""
    assert (SOURCE.provider, SOURCE.redelivers, SOURCE.signed_id) == ("github", False, False)
    assert SOURCE.body_bytes_max == 26_214_400
    assert SOURCE.answer(delivery(b"{}"), secrets(SOURCE)) is None


@pytest.mark.parametrize(
    ("event", "body", "event_type"),
    [
        ("issues", b'{"action":"opened"}', "issues.opened"),
        ("push", b'{"ref":"refs/heads/main"}', "push"),
        ("push", b'{"action":null}', "push"),
        ("check_run", b'{"action":"requested_action"}', "check_run.requested_action"),
    ],
)
def test_the_type_is_the_event_and_its_action(event: str, body: bytes, event_type: str) -> None:
    """As handlers write it: ``issues.opened`` or ``issues.*``."""
    assert identify(body, sent(body, event)) == Identity(event_id=GUID, event_type=event_type)


@pytest.mark.parametrize(
    "headers",
    [
        [("x-github-event", "push")],
        [("x-github-event", "push"), ("x-github-delivery", " ")],
        [("x-github-event", "push"), ("x-github-delivery", "a"), ("x-github-delivery", "b")],
    ],
)
def test_without_one_delivery_id_it_is_quarantined(headers: list[tuple[str, str]]) -> None:
    """P-CALM: authentic, so it is kept; never under an id that somebody guessed."""
    assert identify(b"{}", headers) == Unreadable(reason="no event id at header:x-github-delivery")


def test_the_form_is_verified_as_bytes_and_read_as_json() -> None:
    """C11: the default of GitHub's settings page; the signature is over the form."""
    headers = [FORM, *sent(GITHUB_FORM)]
    assert isinstance(verdict(SOURCE, delivery(GITHUB_FORM, headers)), Verified)
    assert identify(GITHUB_FORM, headers) == Identity(event_id=GUID, event_type="issues.opened")
    inner = b'{"action":"opened","zen":"a b+c"}'
    assert isinstance(verdict(SOURCE, delivery(inner, headers)), Rejected)


@pytest.mark.parametrize(
    "content_type",
    ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json", "text/plain", ""],
)
def test_a_json_body_is_read_whatever_it_is_called(content_type: str) -> None:
    """C11: parameters and letter case never decide; nor does the type, where the body begins as JSON."""
    body = b'{"action":"opened"}'
    headers = [*([("content-type", content_type)] if content_type else []), *sent(body)]
    assert identify(body, headers) == Identity(event_id=GUID, event_type="issues.opened")


@pytest.mark.parametrize(
    "body", [b'{"zen":"Keep it simple.","hook_id":42}', b"payload=%7B%22hook_id%22%3A42%7D"]
)
def test_a_ping_has_no_effect_and_needs_the_right_secret(body: bytes) -> None:
    """C13: believed like any event, recorded, ignored; with another secret refused."""
    headers = [FORM, *sent(body, "ping")]
    reading = identify(body, headers)
    assert isinstance(reading, Identity)
    assert (reading.event_type, reading.ignore) == ("ping", "a ping: GitHub tries the hook")
    assert isinstance(verdict(SOURCE, delivery(body, headers)), Verified)
    assert isinstance(verdict(GitHub("fake-other"), delivery(body, headers)), Rejected)
    assert isinstance(verdict(SOURCE, delivery(body, headers[:3])), Rejected)


def test_each_algorithm_reads_its_own_header_and_no_other() -> None:
    """A stranger cannot choose the weaker one: the header that is not asked for is not looked at."""
    today = sign_hmac(b"{}", SECRET, "X-Hub-Signature-256", prefix="sha256=")
    legacy = sign_hmac(b"{}", SECRET, "X-Hub-Signature", prefix="sha1=", algorithm="sha1")
    for algorithm, believed, ignored in (("sha256", today, legacy), ("sha1", legacy, today)):
        source = GitHub(SECRET, algorithm=algorithm)  # type: ignore[arg-type]  # one of the two
        assert isinstance(verdict(source, delivery(b"{}", [*believed, *ignored])), Verified)
        assert verdict(source, delivery(b"{}", ignored)) == Rejected(
            "signature_missing", f"no {source.scheme.header} header"
        )
    crossed = [(today[0][0], legacy[0][1]), (legacy[0][0], today[0][1])]
    for algorithm in ("sha256", "sha1"):
        source = GitHub(SECRET, algorithm=algorithm)  # type: ignore[arg-type]  # one of the two
        assert isinstance(verdict(source, delivery(b"{}", crossed)), Rejected)


def test_another_algorithm_stops_the_start() -> None:
    """By name."""
    with pytest.raises(ConfigurationError, match=r"^GitHub\(algorithm=\.\.\.\) must be 'sha256' or 'sha1'$"):
        GitHub(SECRET, algorithm="md5")  # type: ignore[arg-type]  # what is tested
