"""
Answer the question "who sent it?": one file a provider.

How a provider becomes a source
-------------------------------
``source.py`` says what a source is. A provider is a subclass of ``Provider`` (``provider.py``) in a file of its own,
and that file is all there is to it: how it signs, how it names its events, and what is known about it.

    class Bitbucket(Provider):
        provider = "bitbucket"                          part of the event key, for ever
        redelivers, signed_id, success_status, ...      what differs from Source's own
        scheme = scheme_of(header=..., ...)             one HMAC over body, time, id, method, URL      (scheme.py)
        naming = naming_of(event_id=..., ...)           where id, type, account and time stand         (naming.py)
        facts = Facts(...)                              what is known, each with its source            (facts.py)

Whatever does not fit a description is a method, not a further option: override ``verify`` (a public key, a signature
inside the body, a token: ``token.py``), ``identify`` (ids that a description cannot name), ``answer`` (a handshake that
is signed) or ``greet`` (one that is not). A class with a signed time takes ``tolerance_seconds`` and hands it to
``Scheme.within``. The parts below read strictly, compare in constant time and never raise; use them, write no others:

    public_key.py    Ed25519 or ECDSA over time and body, by the public key that the user configured
    certificate.py   RSA by a certificate that the provider publishes
    jwt.py           a token in three parts, and the public key in a JSON Web Key
    fetched.py       what a provider publishes for all: https, its own hosts, bounded in time, size and number
    public_url.py    the URL that was signed: as configured, or as the HTTP server rebuilt it
    signature.py     one header, several; hex and base64 with one spelling each; any_equal, mismatch, refused_with
    signed_time.py   Unix seconds, milliseconds, ISO 8601, in a header, a part of one, or the body
    identity.py      what counts as an id, a type, an account, a time; name_event
    place.py         ``$.data.id``, ``header:X-Event-Id``, ``part:t``, ``digest``
    batch.py         the exact bytes of each item of an array
    model/form.py    the JSON in a form-encoded body

An event id must be the same on every redelivery and never the same for two events. Where the provider sends none, it is
``digest``; where only several values together are one, it is several places. ``signed_id`` is false where the signature
leaves out the id or a part of the event. ``account`` and ``environment`` count only where the signature covers them.

Two things that are signed with nothing between them can be cut in two places: hold one of them to one length (as
``signed_time.py`` does for the time), or refuse what holds the separator.

A new provider is also entered in ``catalogue.py`` (which makes the public name, the page, ``webhook-inbox sources``),
in ``testing/signers/`` (its signatures, sharing no code with this room) and in the conformance tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook_inbox.sources.catalogue import HOMES, source_class
from webhook_inbox.sources.source import Answer, Identity, Rejected, Source, Unreadable, Verified

if TYPE_CHECKING:
    from webhook_inbox.sources.adyen import Adyen
    from webhook_inbox.sources.bitbucket import Bitbucket
    from webhook_inbox.sources.calendly import Calendly
    from webhook_inbox.sources.discord import Discord
    from webhook_inbox.sources.docusign import DocuSign
    from webhook_inbox.sources.generic import Hmac
    from webhook_inbox.sources.github import GitHub
    from webhook_inbox.sources.gitlab import GitLab
    from webhook_inbox.sources.hubspot import HubSpot
    from webhook_inbox.sources.intercom import Intercom
    from webhook_inbox.sources.jira import Jira
    from webhook_inbox.sources.lemonsqueezy import LemonSqueezy
    from webhook_inbox.sources.linear import Linear
    from webhook_inbox.sources.mailgun import Mailgun
    from webhook_inbox.sources.meta import Meta
    from webhook_inbox.sources.mollie import Mollie
    from webhook_inbox.sources.paddle import Paddle
    from webhook_inbox.sources.paypal import PayPal
    from webhook_inbox.sources.plaid import Plaid
    from webhook_inbox.sources.postmark import Postmark
    from webhook_inbox.sources.sendgrid import SendGrid
    from webhook_inbox.sources.shopify import Shopify
    from webhook_inbox.sources.slack import Slack
    from webhook_inbox.sources.sns import Sns
    from webhook_inbox.sources.square import Square
    from webhook_inbox.sources.standard_webhooks import StandardWebhooks
    from webhook_inbox.sources.stripe import Stripe
    from webhook_inbox.sources.telegram import Telegram
    from webhook_inbox.sources.twilio import Twilio
    from webhook_inbox.sources.typeform import Typeform
    from webhook_inbox.sources.woocommerce import WooCommerce
    from webhook_inbox.sources.xero import Xero
    from webhook_inbox.sources.zendesk import Zendesk
    from webhook_inbox.sources.zoom import Zoom

__all__ = [
    "Adyen",
    "Answer",
    "Bitbucket",
    "Calendly",
    "Discord",
    "DocuSign",
    "GitHub",
    "GitLab",
    "Hmac",
    "HubSpot",
    "Identity",
    "Intercom",
    "Jira",
    "LemonSqueezy",
    "Linear",
    "Mailgun",
    "Meta",
    "Mollie",
    "Paddle",
    "PayPal",
    "Plaid",
    "Postmark",
    "Rejected",
    "SendGrid",
    "Shopify",
    "Slack",
    "Sns",
    "Source",
    "Square",
    "StandardWebhooks",
    "Stripe",
    "Telegram",
    "Twilio",
    "Typeform",
    "Unreadable",
    "Verified",
    "WooCommerce",
    "Xero",
    "Zendesk",
    "Zoom",
]


def __getattr__(name: str) -> type[Source]:
    """Import a provider when it is first asked for."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return source_class(name)


def __dir__() -> list[str]:
    return __all__
