"""
Hold more sources against the providers' own libraries, as oracles: one good delivery each, and all that is near it.

Never do we believe what they refuse. What they believe and we refuse is listed here, with the reason. Plaid has no
verifier; PyJWT and the two checks of its documentation stand for one. HubSpot's own is a concatenation and an HMAC: its
vectors, in ``tests/conformance``, say as much.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

import discord_interactions  # type: ignore[import-untyped]
import jwt
import pytest
from hypothesis import given, settings, strategies as st
from mollie.utils.webhooks.signature_validator import SignatureValidator
from sendgrid.helpers.eventwebhook import EventWebhook  # type: ignore[import-untyped]
from square.utils.webhooks_helper import verify_signature as square_verifies
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]

from tests.deliveries import NOW
from tests.property.strategies import EDITS, edited
from tests.source_examples import EXAMPLES, URL, written
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Verified
from webhook_inbox.testing.key_pairs import PAIRS
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.source_conformance import Example
from webhook_inbox.testing.tampering import with_header

Says = Callable[[Example, Delivery], bool]
EDITED_UP_TO = 120  # where EDITS end


def twilio(example: Example, sent: Delivery) -> bool:
    """Ask with the form as a framework hands it on, or with the body where it is JSON."""
    json_sent = sent.body.startswith(b"[")
    form = None if json_sent else Form(parse_qsl(sent.body.decode(), keep_blank_values=True))
    params = sent.body.decode() if form is None else form
    validator = RequestValidator(example.secret)
    return bool(validator.validate(sent.url, params, sent.headers["x-twilio-signature"]))


class Form(list[tuple[str, str]]):
    """What Twilio's library is handed by Django and Flask: names, each with all of its values."""

    def __iter__(self) -> object:  # type: ignore[override]
        return iter([name for name, _ in list.__iter__(self)])

    def getlist(self, name: str) -> list[str]:
        """Give the values of a name."""
        return [value for each, value in list.__iter__(self) if each == name]


def sendgrid(example: Example, sent: Delivery) -> bool:
    """Ask with the public key."""
    name = "x-twilio-email-event-webhook"
    signature, timestamp = sent.headers[f"{name}-signature"], sent.headers[f"{name}-timestamp"]
    return bool(EventWebhook(example.secret).verify_signature(sent.body.decode(), signature, timestamp))


def square(example: Example, sent: Delivery) -> bool:
    """Ask with the URL that it was sent to."""
    return square_verifies(
        request_body=sent.body.decode(),
        signature_header=sent.headers["x-square-hmacsha256-signature"],
        signature_key=example.secret,
        notification_url=sent.url,
    )


def mollie(example: Example, sent: Delivery) -> bool:
    """Ask with every signature that was sent, joined or not; an empty one, which it passes over, is none."""
    signatures = joined(",".join(sent.headers.all("x-mollie-signature")))
    return all(signatures) and SignatureValidator.validate(sent.body.decode(), example.secret, signatures)


def joined(header: str) -> list[str]:
    """Part what WSGI and proxies join."""
    return [each.strip(" \t") for each in header.split(",")]


def discord(example: Example, sent: Delivery) -> bool:
    """Ask with the application's key."""
    signature, timestamp = sent.headers["x-signature-ed25519"], sent.headers["x-signature-timestamp"]
    return bool(discord_interactions.verify_key(sent.body, signature, timestamp, example.secret))


def plaid(example: Example, sent: Delivery) -> bool:
    """Take the steps of Plaid's documentation, with PyJWT."""
    token = sent.headers["plaid-verification"]
    if jwt.get_unverified_header(token)["alg"] != "ES256":
        return False
    claims = jwt.decode(token, jwt.PyJWK.from_json(example.secret), algorithms=["ES256"])
    digest = hashlib.sha256(sent.body).hexdigest()
    return bool(claims["iat"] >= NOW - 300 and claims["request_body_sha256"] == digest)


def same_base64(good: str, changed: str) -> bool:
    """Stray characters, and the unused bits of the last one: Python's decoders pass over both."""
    try:
        return base64.b64decode(changed) == base64.b64decode(good)
    except ValueError:
        return False


def same_hex(good: str, changed: str) -> bool:
    """White space between the digits, and capital ones: ``bytes.fromhex`` takes both."""
    try:
        return bytes.fromhex(changed) == bytes.fromhex(good)
    except ValueError:
        return False


def bare(good: str, changed: str) -> bool:
    """The digest without ``sha256=``: the header has one form."""
    return good.removeprefix("sha256=") in joined(changed)


def nothing(good: str, changed: str) -> bool:
    """No difference is intended."""
    return good == changed


@dataclass(frozen=True, slots=True)
class Oracle:
    """A library's verdict, the header in which something is changed, and what it believes there that we do not."""

    says: Says
    header: str
    looser: Callable[[str, str], bool] = nothing


ORACLES: Mapping[str, Oracle] = {
    "discord": Oracle(discord, "x-signature-ed25519", same_hex),
    "mollie": Oracle(mollie, "x-mollie-signature", bare),
    "plaid": Oracle(plaid, "plaid-verification"),
    "sendgrid": Oracle(sendgrid, "x-twilio-email-event-webhook-signature", same_base64),
    "square": Oracle(square, "x-square-hmacsha256-signature"),
    "twilio": Oracle(twilio, "x-twilio-signature"),
    "twilio, sink": Oracle(twilio, "x-twilio-signature"),
}


def theirs(name: str, sent: Delivery) -> bool:
    """Ask the library; whatever it raises is a refusal."""
    try:
        return ORACLES[name].says(EXAMPLES[name], sent)
    except Exception:
        return False


def ours(name: str, sent: Delivery) -> bool:
    """Ask ours."""
    return isinstance(EXAMPLES[name].verdict(sent), Verified)


@pytest.mark.parametrize("name", ORACLES)
def test_a_good_delivery_is_believed_by_both(name: str) -> None:
    """And with another body by neither, where the signature covers it."""
    sent = EXAMPLES[name].delivery
    assert (ours(name, sent), theirs(name, sent)) == (True, True)
    other = replace(sent, body=sent.body.replace(b"e", b"x", 1))
    assert other.body != sent.body
    assert (ours(name, other), theirs(name, other)) == (False, False)


@pytest.mark.parametrize("name", ORACLES)
@given(edits=EDITS)
@settings(max_examples=400, deadline=None)
def test_near_a_good_header_only_listed_differences_exist(
    name: str, edits: list[tuple[int, int, str]]
) -> None:
    """Whatever is changed in it: we believe nothing that they refuse, and refuse only what is listed."""
    oracle, sent = ORACLES[name], EXAMPLES[name].delivery
    good = sent.headers[oracle.header]
    spread = [(at * (len(good) + 1) // EDITED_UP_TO, length, new) for at, length, new in edits]
    changed = edited(good, spread)
    made = with_header(sent, oracle.header, changed)
    assert not ours(name, made) or theirs(name, made)
    assert ours(name, made) or not theirs(name, made) or oracle.looser(good, changed)


LOOSER: Mapping[str, list[Callable[[str], str]]] = {
    "discord": [str.upper, lambda good: f" {good} ", lambda good: f"{good[:2]} {good[2:]}"],
    "mollie": [lambda good: good.removeprefix("sha256=")],
    "sendgrid": [lambda good: f"!{good}", lambda good: f"{good}\t"],
}


@pytest.mark.parametrize("name", LOOSER)
def test_each_listed_difference_is_one(name: str) -> None:
    """Should the library mend it, this list gets shorter."""
    oracle, sent = ORACLES[name], EXAMPLES[name].delivery
    good = sent.headers[oracle.header]
    for change in LOOSER[name]:
        made = with_header(sent, oracle.header, change(good))
        assert oracle.looser(good, change(good))
        assert (theirs(name, made), ours(name, made)) == (True, False)


# What the examples of these are signed with.
SECRETS = {
    "mollie": EXAMPLES["mollie"].secret,
    "square": EXAMPLES["square"].secret,
    **{name: PAIRS[name]().private for name in ("discord", "plaid", "sendgrid")},
}


@pytest.mark.parametrize("name", SECRETS)
@given(text=st.text(min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_that_is_signed_is_believed_by_both(name: str, text: str) -> None:
    """Whatever the body says; of Square's, whatever the JSON says: see below."""
    sent = EXAMPLES[name].delivery
    body = text.encode("utf-8", "replace") if name != "square" else written({"text": text})
    made = SIGNERS[name](
        Draft(body=body, secret=SECRETS[name], event_id="evt_1", timestamp=NOW, url=sent.url)
    )
    again = replace(sent, headers=Headers(made.headers), body=body, received_at=NOW)
    assert (ours(name, again), theirs(name, again)) == (True, True)


def test_of_square_only_json_is_believed() -> None:
    """Its library takes any body; ours not, since URL and body run together: one signature would stand for two."""
    example = EXAMPLES["square"]
    for url, body, believed in (
        (URL, b"{}", True),
        (URL, b"text", False),
        (URL[:-1], URL[-1:].encode() + b"{}", False),
    ):
        made = SIGNERS["square"](Draft(body=body, secret=example.secret, event_id="", timestamp=NOW, url=url))
        sent = replace(example.delivery, headers=Headers(made.headers), body=body, url=url)
        assert (theirs("square", sent), ours("square", sent)) == (True, believed)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
FORMS = st.lists(st.tuples(WORDS.filter(bool), WORDS), min_size=1, max_size=6)
URLS = st.sampled_from(
    [
        URL,
        f"{URL}?a=b&a=c",
        "https://h.example.test:8443/x",
        "https://h.example.test:443/x?y",
        "http://h.example.test",
    ]
)


@given(form=FORMS, url=URLS, of_url=URLS)
@settings(max_examples=400, deadline=None)
def test_any_form_that_twilio_s_library_signs_gets_one_answer(
    form: list[tuple[str, str]], url: str, of_url: str
) -> None:
    """Repeated names, empty values, any script; with and without the scheme's own port; and for another URL refused."""
    example = EXAMPLES["twilio"]
    signature = RequestValidator(example.secret).compute_signature(of_url, Form(form))
    sent = replace(example.delivery, url=url, body=urlencode(form).encode())
    made = with_header(sent, "x-twilio-signature", signature)
    assert ours("twilio", made) == theirs("twilio", made)
    assert url != of_url or ours("twilio", made)
