"""``prune`` forgets what the app's settings say is old, or says what that would be."""

from __future__ import annotations

from tests.fixtures.cli import SHOP, Cli
from tests.fixtures.recorded import Recorded

DAY = 86_400


def test_it_forgets_by_the_settings_of_the_app(shop: Cli) -> None:
    """Of each endpoint; first the true count, then the deed, and nothing the second time."""
    recorded = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    shop.app(SHOP.replace('mode="inline")', 'mode="inline", payload_days=1, key_days=40)'))
    recorded.add("evt_new")
    recorded.add("evt_old", ago=2 * DAY)
    recorded.add("evt_ancient", ago=41 * DAY)
    recorded.add("evt_dead", "dead", ago=41 * DAY)
    dry = shop.json("prune", "shop:inbox", "--dry-run")
    assert dry == {"dry_run": True, "days": [], "bodies": 2, "events": 1}
    assert shop.run("prune", "shop:inbox", "--dry-run").stdout == "would forget 2 payloads, 1 event\n"
    assert len(recorded.states()) == 4
    assert shop.run("prune", "shop:inbox").stdout == "forgot 2 payloads, 1 event\n"
    assert set(recorded.states()) == {"evt_new", "evt_old", "evt_dead"}
    assert shop.json("prune", "shop:inbox") == {"dry_run": False, "days": [], "bodies": 0, "events": 0}


def test_it_needs_an_app_whose_settings_can_be_kept(shop: Cli) -> None:
    """Exit 2: without one nobody says how long; and keys must outlive the provider's redelivery."""
    assert shop.run("prune").returncode == 2
    shop.app(SHOP.replace('mode="inline")', 'mode="inline", payload_days=1, key_days=2)'))
    done = shop.run("prune", "shop:inbox")
    assert (done.returncode, "sends again for 3 days" in done.stderr) == (2, True)
