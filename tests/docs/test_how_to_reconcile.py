"""What the page about reconciling shows can be written so, and is what the program prints."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from webhook_inbox.cli import reconcile as verb
from webhook_inbox.model.reconciled import Tally, Walked
from webhook_inbox.model.settings import Settings
from webhook_inbox.sources.catalogue import providers
from webhook_inbox.sources.listing import SECONDS_A_DAY, Listing
from webhook_inbox.sources.listing_github import GitHubListing
from webhook_inbox.sources.listing_paddle import PaddleListing
from webhook_inbox.sources.listing_paypal import PayPalListing
from webhook_inbox.sources.listing_square import SquareListing
from webhook_inbox.sources.listing_stripe import StripeListing, ThinStripeListing
from webhook_inbox.sources.listing_svix import SvixListing

LISTINGS: dict[str, type[Listing]] = {
    "Stripe": StripeListing,
    "Stripe, thin events": ThinStripeListing,
    "GitHub": GitHubListing,
    "Paddle": PaddleListing,
    "Square": SquareListing,
    "PayPal": PayPalListing,
    "Standard Webhooks": SvixListing,
}
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "reconcile.md").read_text(encoding="utf-8")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the example defines."""
    monkeypatch.setenv("WEBHOOK_INBOX_DATABASE_URL", "postgresql://localhost/fake")
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", "whsec_fake")
    for name in ("STRIPE_EVENTS_KEY", "GITHUB_SECRET", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, f"fake_{name.lower()}")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {"os": os}
    exec(compile(block, "reconcile.md", "exec"), names)  # noqa: S102 - the page is ours
    return names


def test_the_example_opens_two_endpoints_that_can_be_asked(shown: dict[str, Any]) -> None:
    """And the table says how far back each list reaches."""
    for name, title in (("billing", "Stripe"), ("forge", "GitHub")):
        listing = shown[name].plan.source.listing
        days = listing.window_seconds / SECONDS_A_DAY
        assert re.search(rf"^\| {title} \|.*\| {days:.0f} days \|", PAGE, re.MULTILINE)
        assert listing.overlap_seconds == 3 * SECONDS_A_DAY
    for title, kind in LISTINGS.items():
        assert re.search(
            rf"^\| {title} \|.*\| {kind.window_seconds / SECONDS_A_DAY:.0f} days \|", PAGE, re.MULTILINE
        )
    assert len(LISTINGS) == sum(each.reconciles for each in providers()) + len(("Stripe, thin events",))
    assert f"every `reconcile_hours` ({Settings().reconcile_hours:g}; 0: never)" in PAGE


def test_the_lines_of_the_console_are_those_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """First what is missing, then what was recovered."""
    walk = Walked(tally=Tally(seen=1000, present=980, recovered=20))
    for dry_run in (True, False):
        verb._show(walk, dry_run=dry_run)
    printed = capsys.readouterr().out.splitlines()
    (console,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [line for line in console.splitlines() if not line.startswith("$")] == printed
    for command in re.findall(r"^\$ (.*)$", console, re.MULTILINE):
        assert command.startswith("webhook-inbox reconcile billing.app:inbox billing --since 2d")


def test_the_counts_of_the_page_are_those_of_the_program() -> None:
    """Each has its meaning, and no other is told of."""
    table = PAGE.partition("| count | means |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == [
        name.replace("_", " ") for name in Tally.__slots__
    ]
