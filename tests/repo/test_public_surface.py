"""Hold the public names stable: a name that users import does not vanish by accident, nor appear by one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import webhook_inbox
from tests.fixtures.benches import set_django_up
from webhook_inbox import destinations, sources

NAMES = {
    "webhook_inbox": [
        "Django",
        "Endpoint",
        "Event",
        "EventResult",
        "GiveUp",
        "Handlers",
        "Headers",
        "Ignore",
        "Inbox",
        "NotYet",
        "Outcome",
        "Receipt",
        "Secret",
        "State",
        "Tx",
        "__version__",
    ],
    "webhook_inbox.destinations": [
        "Call",
        "Destination",
        "Failed",
        "Http",
        "Kafka",
        "Limits",
        "Message",
        "Nats",
        "RabbitMQ",
        "RedisStream",
        "Sent",
        "Verdict",
    ],
    "webhook_inbox.alembic": ["downgrade", "include_name", "include_object", "upgrade"],
    "webhook_inbox.testing": [
        "AsyncInboxTester",
        "Draft",
        "Finding",
        "InboxTester",
        "OutboxMessage",
        "Proof",
        "RecordedEvent",
        "Review",
        "Sample",
        "Signed",
        "prove",
        "signed",
    ],
    "webhook_inbox.sources": [
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
    ],
}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(webhook_inbox.__path__, "webhook_inbox.")
    # Those are programs: they want a database or a command line when they are imported.
    if not module.name.startswith("webhook_inbox.demo.") and not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_these(name: str) -> None:
    """Adding a name, or taking one away, is a decision: it is made here too, and told in the changelog."""
    assert importlib.import_module(name).__all__ == NAMES[name]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_imports_and_lists_its_public_names_sorted(name: str) -> None:
    """A reader finds a name where the alphabet puts it, and each listed name is there."""
    set_django_up()
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", [])
    assert listed == sorted(listed)
    assert [each for each in listed if not hasattr(module, each)] == []


@pytest.mark.parametrize("module", [webhook_inbox, destinations, sources], ids=lambda module: module.__name__)
def test_every_public_class_and_its_methods_say_what_they_promise(module: object) -> None:
    """Whoever meets a public name in an editor is told what it does."""
    silent = []
    for name in module.__all__:  # type: ignore[attr-defined]  # each module has one: tested above
        thing = getattr(module, name)
        if not inspect.isclass(thing):
            continue
        members = [(name, thing)] + [
            (f"{name}.{each}", member)
            for base in thing.__mro__
            if base.__module__.startswith("webhook_inbox.")  # what Inbox is made of is as public as itself
            for each, member in vars(base).items()
            if not each.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
        ]
        silent += [label for label, member in members if not inspect.getdoc(member)]
    assert silent == []
