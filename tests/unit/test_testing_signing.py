"""The signers sign as the providers do, and know nothing of the verifiers."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.deliveries import NOW, STANDARD_SECRET, STRIPE_SECRET, delivery, payload_files, verdict
from webhook_inbox.sources import Hmac, Source, StandardWebhooks, Stripe, Verified
from webhook_inbox.sources.catalogue import providers
from webhook_inbox.testing import signers, signing
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.signing import (
    public_key_of,
    sign_hmac,
    sign_standard_webhooks,
    sign_stripe,
)

BODY = b'{"id":"evt_v1","type":"order.paid","data":{"amount":500}}'
PRIVATE = "whsk_" + base64.b64encode(bytes(range(32))).decode()


MODULES = [
    signing,
    *(import_module(f"{signers.__name__}.{each.name}") for each in pkgutil.iter_modules(signers.__path__)),
    signers,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_signers_share_no_code_with_verifiers(module: ModuleType) -> None:
    """A mistake made twice must not agree with itself: the modules import nothing of this package but each other."""
    tree = ast.parse(inspect.getsource(module))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or "."] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
        )
    }
    ours = {name for name in imported if name.startswith((".", "webhook_inbox"))}
    assert all(name.startswith("webhook_inbox.testing.sign") for name in ours)
    assert not {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & {"import_module"}


def test_the_field_reports_own_vectors_come_out() -> None:
    """Five schemes over the same 57 bytes at the same second."""
    assert sign_stripe(BODY, "whsec_dGVzdC1zZWNyZXQtb25l", 1_700_000_000) == (
        (
            "stripe-signature",
            "t=1700000000,v1=544d9a505952b49c6663c154b4e46fea9c21507ec8ac3f27c0f97af821fa0a36",
        ),
    )
    assert sign_standard_webhooks(BODY, "whsec_dGVzdC1zZWNyZXQtb25l", "msg_v1", 1_700_000_000) == (
        ("webhook-id", "msg_v1"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,Sg1vT3wvFUDOg/xtj/C3zjwuqdauvLJkxRPlO31F+Y4="),
    )
    assert sign_hmac(BODY, "gh-secret-one", "x-hub-signature-256", prefix="sha256=") == (
        ("x-hub-signature-256", "sha256=2e5433af85bc635312b114938ba2b086c4c626077eafa874d8bc1786eb4b989c"),
    )
    assert sign_hmac(BODY, b"shop-secret-one", "x-shopify-hmac-sha256", encoding="base64") == (
        ("x-shopify-hmac-sha256", "YkkEgg+GShOHLo1GLw+YVIvGwa3B6U+uFQyAaC2ukJM="),
    )
    assert sign_hmac(
        BODY, "slack-secret-one", "x-slack-signature", prefix="v0=", before=b"v0:1700000000:"
    ) == (("x-slack-signature", "v0=3021a2ed7dd84d39b42da85bc00b7a5077054952e2844af27e45ee53354577ee"),)


def test_other_hashes_spellings_and_contents_come_out() -> None:
    """SHA-1, SHA-512, upper case, and what is signed after the body."""
    assert sign_hmac(b"a", "k", "x", algorithm="sha1") == (
        ("x", hmac.new(b"k", b"a", hashlib.sha1).hexdigest()),
    )
    assert sign_hmac(b"a", "k", "x", algorithm="sha512", encoding="hex-upper", after=b"z") == (
        ("x", hmac.new(b"k", b"az", hashlib.sha512).hexdigest().upper()),
    )


def test_svix_gets_its_own_header_names() -> None:
    """Otherwise the same."""
    plain = sign_standard_webhooks(BODY, STANDARD_SECRET, "msg_1", NOW)
    svix = sign_standard_webhooks(BODY, STANDARD_SECRET.removeprefix("whsec_"), "msg_1", NOW, family="svix")
    assert svix == tuple((name.replace("webhook", "svix"), value) for name, value in plain)


def test_a_private_key_signs_with_ed25519() -> None:
    """As the specification says; the public half that checks it is in its own form."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    signed = sign_standard_webhooks(BODY, PRIVATE, "msg_1", NOW)
    version, signature = signed[2][1].split(",")
    assert version == "v1a"
    key.public_key().verify(base64.b64decode(signature), f"msg_1.{NOW}.".encode() + BODY)
    public = public_key_of(PRIVATE)
    assert public == "whpk_" + base64.b64encode(key.public_key().public_bytes_raw()).decode()
    both_halves = "whsk_" + base64.b64encode(bytes(range(32)) + key.public_key().public_bytes_raw()).decode()
    assert sign_standard_webhooks(BODY, both_halves, "msg_1", NOW) == signed
    assert verdict(StandardWebhooks(public), delivery(BODY, signed)) == Verified("secret-1")


@pytest.mark.parametrize(
    ("name", "source", "secret"),
    [
        ("stripe", Stripe(STRIPE_SECRET), STRIPE_SECRET),
        ("standard-webhooks", StandardWebhooks(STANDARD_SECRET), STANDARD_SECRET),
        ("standard-webhooks", StandardWebhooks(public_key_of(PRIVATE)), PRIVATE),
        ("svix", StandardWebhooks(STANDARD_SECRET), STANDARD_SECRET),
    ],
)
def test_what_send_signs_is_believed(name: str, source: Source, secret: str) -> None:
    """For every edge body: the signer named on the command line and the source agree on the exact bytes."""
    for path in payload_files("edge"):
        body = path.read_bytes()
        signed = SIGNERS[name](Draft(body=body, secret=secret, event_id="evt_1", timestamp=NOW))
        assert verdict(source, delivery(signed.body, signed.headers)) == Verified("secret-1"), path.name


def test_every_source_has_a_signer_and_every_signer_a_source() -> None:
    """``svix`` is Standard Webhooks under other header names; and nobody adds one at run time."""
    assert {each.provider for each in providers()} == SIGNERS.keys() - {"svix"}
    with pytest.raises(TypeError):
        SIGNERS["other"] = SIGNERS["stripe"]  # type: ignore[index]  # what is tested


def test_a_plain_hmac_is_believed_by_the_source_so_described() -> None:
    """Paddle-like: a list of parts, with the time among them."""
    source = Hmac(
        "paddle",
        secrets="fake-key",
        header="Paddle-Signature",
        separator=";",
        prefix="h1=",
        signed="{timestamp}:{body}",
        timestamp="part:ts",
        tolerance_seconds=5,
    )
    signed = sign_hmac(
        BODY, "fake-key", "Paddle-Signature", prefix=f"ts={NOW};h1=", before=f"{NOW}:".encode()
    )
    assert verdict(source, delivery(BODY, signed)) == Verified("secret-1")
