"""Hold each source against the handshakes of its provider: what is answered, with what, and to whom not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deliveries import NOW, delivery, verdict
from webhook_inbox import Inbox, Outcome, Receipt, Secret
from webhook_inbox.model.headers import HeaderPairs, Headers
from webhook_inbox.sources import (
    Discord,
    GitHub,
    Identity,
    Meta,
    Slack,
    Source,
    Verified,
    WooCommerce,
    Xero,
    Zoom,
)
from webhook_inbox.testing.key_pairs import ed25519_pair
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.signing import sign_hmac

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nowhere"
VERIFY_TOKEN = "fake-verify-token"
SLACK_SECRET, ZOOM_SECRET = "fake-slack-secret", "fake-zoom-secret"


@dataclass(frozen=True)
class Handshake:
    """What a provider sends, and the answer that it wants."""

    provider: str
    secrets: list[str]
    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes
    status: int
    content_type: str
    answer: bytes


def _handshake(given: dict[str, Any]) -> Handshake:
    request, wanted = given["request"], given["expect_response"]
    return Handshake(
        provider=given["provider"],
        secrets=given["secrets"],
        method=request["method"],
        url=request["url"],
        headers=[(name, value) for name, value in request["headers"]],
        body=base64.b64decode(request.get("body_b64") or ""),
        status=wanted["status"],
        content_type=dict(wanted.get("headers") or ()).get("Content-Type", ""),
        answer=base64.b64decode(wanted.get("body_b64") or ""),
    )


VECTORS = json.loads((Path(__file__).parent / "data" / "signature-vectors.json").read_text())
HANDSHAKES: Mapping[str, Handshake] = {given["id"]: _handshake(given) for given in VECTORS["handshakes"]}
# The vectors are signed in the past: a tolerance without end, since their clock is not this host's.
LONG = 10**10
SOURCES: Mapping[str, Callable[[list[str]], Source]] = {
    "discord": lambda secrets: Discord(secrets, tolerance_seconds=LONG),
    "meta": lambda secrets: Meta("fake-app-secret", verify_token=secrets[0]),
    "slack": lambda secrets: Slack(secrets, tolerance_seconds=LONG),
    "woocommerce": lambda secrets: WooCommerce(secrets or ["fake-woo-secret"]),
    "xero": Xero,
    "zoom": lambda secrets: Zoom(secrets, tolerance_seconds=LONG),
}
ELSEWHERE = {"github"}  # an event that has no effect (below)
# What the vectors leave open and the provider's page asks for.
CONTENT_TYPES = {"discord/webhook-event-ping": "application/json"}


def answered(source: Source, sent: Handshake) -> Receipt:
    """Give the answer of an inbox whose database cannot be reached: a handshake asks for none."""
    inbox = Inbox(NO_DATABASE, connection_wait_seconds=0.5)
    inbox.endpoint("hooks", source)
    headers: HeaderPairs = sent.headers
    try:
        return inbox.receive_sync("hooks", method=sent.method, url=sent.url, headers=headers, body=sent.body)
    finally:
        inbox.close()


def test_no_handshake_is_left_out_silently() -> None:
    """All 11 are answered here, or by a source that is named."""
    assert len(HANDSHAKES) == 11
    assert {each.provider for each in HANDSHAKES.values()} == SOURCES.keys() | ELSEWHERE


@pytest.mark.parametrize(
    "name", [name for name, each in HANDSHAKES.items() if each.provider not in ELSEWHERE]
)
def test_a_handshake_is_answered_as_the_provider_wants(name: str) -> None:
    """C14: status, content type and body to the byte; stored nowhere."""
    sent = HANDSHAKES[name]
    receipt = answered(SOURCES[sent.provider](sent.secrets), sent)
    assert receipt.status == sent.status
    assert receipt.body == sent.answer
    assert dict(receipt.headers).get("content-type", "").partition(";")[0] == CONTENT_TYPES.get(
        name, sent.content_type
    )
    refused = sent.status >= 400
    assert receipt.outcome is (Outcome.REJECTED if refused else Outcome.HANDSHAKE)
    assert receipt.results == ()


def test_a_ping_of_github_s_is_an_event_without_effect() -> None:
    """C13: believed only with the right secret, named, and ignored whatever handlers there are."""
    sent = HANDSHAKES["github/ping"]
    ping = delivery(sent.body, sent.headers)
    assert isinstance(verdict(GitHub(sent.secrets), ping), Verified)
    assert not isinstance(verdict(GitHub("fake-other"), ping), Verified)
    (reading,) = GitHub(sent.secrets).identify(ping)
    assert isinstance(reading, Identity)
    assert (reading.event_type, bool(reading.ignore)) == ("ping", True)


def slack(body: bytes, secret: str = SLACK_SECRET) -> Handshake:
    """Sign as Slack."""
    signature = sign_hmac(body, secret, "x-slack-signature", prefix="v0=", before=f"v0:{NOW}:".encode())
    headers = [("x-slack-request-timestamp", str(NOW)), *signature]
    return Handshake("slack", [], "POST", "", headers, body, 0, "", b"")


def zoom(body: bytes, secret: str = ZOOM_SECRET) -> Handshake:
    """Sign as Zoom."""
    signature = sign_hmac(body, secret, "x-zm-signature", prefix="v0=", before=f"v0:{NOW}:".encode())
    return Handshake(
        "zoom", [], "POST", "", [("x-zm-request-timestamp", str(NOW)), *signature], body, 0, "", b""
    )


def validation(token: object) -> bytes:
    """The body with which Zoom asks for a proof."""
    return json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": token}}).encode()


def test_no_challenge_is_echoed_to_a_stranger() -> None:
    """C14: a bad signature is refused, and the challenge is nowhere in the answer."""
    body = b'{"token":"t","challenge":"abc123XYZ","type":"url_verification"}'
    good = answered(Slack(SLACK_SECRET, tolerance_seconds=LONG), slack(body))
    assert (good.status, good.body) == (200, b"abc123XYZ")
    refused = answered(Slack(SLACK_SECRET, tolerance_seconds=LONG), slack(body, "fake-other"))
    assert (refused.status, refused.reason) == (400, "signature_mismatch")
    assert b"abc123XYZ" not in refused.body


def test_a_challenge_that_is_no_text_is_refused() -> None:
    """P-CALM: signed, but nothing to echo."""
    receipt = answered(
        Slack(SLACK_SECRET, tolerance_seconds=LONG), slack(b'{"type":"url_verification","challenge":1}')
    )
    assert (receipt.status, receipt.reason, receipt.body) == (400, "handshake_refused", b"")


@pytest.mark.parametrize(
    "token",
    ['v0:1700000000:{"event":"meeting.started"}', "v0:1:", ":", "a" * 129, "", " ", 7, None, "é", "a\nb"],
)
def test_zoom_s_proof_cannot_be_had_for_what_could_be_a_delivery(token: object) -> None:
    """C14: even where the request itself is signed, nothing is signed that a delivery could be made of."""
    receipt = answered(Zoom(ZOOM_SECRET, tolerance_seconds=LONG), zoom(validation(token)))
    assert (receipt.status, receipt.reason, receipt.body) == (400, "handshake_refused", b"")


def test_zoom_s_proof_is_given_only_to_whoever_knows_the_secret() -> None:
    """C14: and with the secret that they know, while one is being rolled."""
    source = Zoom(["fake-new-secret", ZOOM_SECRET], tolerance_seconds=LONG)
    sent = zoom(validation("q1w2e3"))
    proof = hmac.new(ZOOM_SECRET.encode(), b"q1w2e3", hashlib.sha256).hexdigest()
    assert json.loads(answered(source, sent).body) == {"plainToken": "q1w2e3", "encryptedToken": proof}
    alike = Zoom(
        [Secret("fake-new-secret", label="x"), Secret(ZOOM_SECRET, label="x")], tolerance_seconds=LONG
    )
    assert json.loads(answered(alike, sent).body)["encryptedToken"] == proof
    for refused in (replace(sent, headers=[]), zoom(validation("q1w2e3"), "fake-other")):
        receipt = answered(source, refused)
        assert receipt.status == 400
        assert b"encryptedToken" not in receipt.body


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (f"hub.mode=subscribe&hub.challenge=1&hub.verify_token={VERIFY_TOKEN}", 200),
        (f"hub.mode=unsubscribe&hub.challenge=1&hub.verify_token={VERIFY_TOKEN}", 403),
        (f"hub.mode=subscribe&hub.verify_token={VERIFY_TOKEN}", 403),
        (f"hub.mode=subscribe&hub.challenge=&hub.verify_token={VERIFY_TOKEN}", 403),
        (f"hub.mode=subscribe&hub.challenge={'1' * 257}&hub.verify_token={VERIFY_TOKEN}", 403),
        (f"hub.mode=subscribe&hub.challenge=1&hub.verify_token=no&hub.verify_token={VERIFY_TOKEN}", 403),
        ("hub.mode=subscribe&hub.challenge=1&hub.verify_token=", 403),
        ("hub.mode=subscribe&hub.challenge=1", 403),
        ("hub.challenge=%FF&hub.mode=subscribe", 403),
        ("", 403),
    ],
)
def test_meta_s_challenge_is_given_back_for_the_verify_token_alone(query: str, status: int) -> None:
    """The token exactly, once; else 403 without a word."""
    source = Meta("fake-app-secret", verify_token=VERIFY_TOKEN)
    url = f"https://receiver.example.test/hooks/meta?{query}"
    receipt = answered(source, Handshake("meta", [], "GET", url, [], b"", 0, "", b""))
    assert (receipt.status, receipt.body) == (status, b"1" if status == 200 else b"")
    assert status == 200 or receipt.reason == "handshake_refused"


def test_meta_s_challenge_comes_back_over_http() -> None:
    """By GET with the query as Meta escapes it; POST stays what it was, and nothing else is taken."""
    inbox = Inbox(NO_DATABASE)
    inbox.endpoint("meta", Meta("fake-app-secret", verify_token="fake token+1"))

    async def ask() -> list[tuple[int, str, str]]:
        transport = httpx.ASGITransport(app=inbox.asgi())
        async with inbox.running(), httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            good = "/meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=fake%20token%2B1"
            asked = [
                await client.get(good),
                await client.get("/meta"),
                await client.put("/meta"),
                await client.post("/meta"),
            ]
        return [(each.status_code, each.text[:10], each.headers.get("content-type", "")) for each in asked]

    got = asyncio.run(ask())
    assert got[0] == (200, "1158201444", "text/plain; charset=utf-8")
    assert got[1] == (403, "", "")
    assert [status for status, *_ in got[2:]] == [405, 400]


def test_discord_s_pings_are_answered_over_http() -> None:
    """Each kind as it wants; a bad signature hears 401 without a word, and a 204 has no length (RFC 9110, 8.6)."""
    keys = ed25519_pair(1)
    inbox = Inbox(NO_DATABASE)
    inbox.endpoint("discord", Discord(keys.public, tolerance_seconds=LONG))
    pings = [b'{"version":1,"application_id":"1","type":0}', b'{"id":"1","type":1,"token":"t"}']

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=inbox.asgi())
        async with inbox.running(), httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            answers = []
            for body in pings:
                made = SIGNERS["discord"](Draft(body=body, secret=keys.private, event_id="", timestamp=NOW))
                answers.append(await client.post("/discord", content=body, headers=list(made.headers)))
            bad = {"x-signature-timestamp": str(NOW), "x-signature-ed25519": "0" * 128}
            return [*answers, await client.post("/discord", content=pings[0], headers=bad)]

    events, interactions, refused = asyncio.run(ask())
    assert (events.status_code, events.content, "content-length" in events.headers) == (204, b"", False)
    assert (interactions.status_code, interactions.json()) == (200, {"type": 1})
    assert (refused.status_code, refused.content) == (401, b"")


def test_meta_s_endpoint_takes_get_only_where_a_verify_token_is_set() -> None:
    """And no other method."""
    assert Meta("fake-app-secret").methods == frozenset()
    assert Meta("fake-app-secret", verify_token=VERIFY_TOKEN).methods == {"GET"}
    get = Handshake("meta", [], "GET", "http://h/?hub.mode=subscribe", [], b"", 0, "", b"")
    assert answered(Meta("fake-app-secret"), get).status == 405
    with_url = replace(get, url="http://[bad/?x")
    assert answered(Meta("fake-app-secret", verify_token=VERIFY_TOKEN), with_url).status == 403


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"webhook_id=142", [("content-type", "application/x-www-form-urlencoded; charset=utf-8")], 200),
        (b"webhook_id=142", [("content-type", "application/json")], 400),
        (b"webhook_id=142", [], 400),
        (b"webhook_id=", [("content-type", "application/x-www-form-urlencoded")], 400),
        (b"webhook_id=1&x=2", [("content-type", "application/x-www-form-urlencoded")], 400),
        (b"webhook_id=142\n", [("content-type", "application/x-www-form-urlencoded")], 400),
        (
            b"webhook_id=142",
            [("content-type", "application/x-www-form-urlencoded"), ("x-wc-webhook-signature", "x")],
            400,
        ),
    ],
)
def test_woocommerce_s_ping_is_the_only_thing_that_needs_no_signature(
    body: bytes, headers: list[tuple[str, str]], status: int
) -> None:
    """Exactly this form gets exactly 200, and nothing comes of it."""
    receipt = answered(
        WooCommerce("fake-woo-secret"), Handshake("woo", [], "POST", "", headers, body, 0, "", b"")
    )
    assert receipt.status == status
    assert receipt.outcome is (Outcome.HANDSHAKE if status == 200 else Outcome.REJECTED)


def test_xero_hears_no_body_whatever_happens() -> None:
    """Neither on success nor on refusal; without events it is no event."""
    body = b'{"events":[],"entropy":"E"}'
    good = list(sign_hmac(body, "fake-xero-key", "x-xero-signature", encoding="base64"))
    for headers, status in ((good, 200), ([], 401), ([("x-xero-signature", "no")], 401)):
        receipt = answered(
            Xero("fake-xero-key"), Handshake("xero", [], "POST", "", headers, body, 0, "", b"")
        )
        assert (receipt.status, receipt.body) == (status, b"")
        assert "content-type" not in Headers(receipt.headers)
