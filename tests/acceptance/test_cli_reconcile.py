"""``reconcile`` says what never arrived, takes it in, and goes on where a killed run was."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cli import SECONDS_MAX, SHOP, Cli
from tests.fixtures.provider_apis import API_KEY, StripeApi, served

EMPTY = {"seen": 0, "present": 0, "recovered": 0, "failed": 0, "out_of_reach": 0}


@pytest.fixture
def stripe(shop: Cli) -> Iterator[StripeApi]:
    """Stripe, on loopback, and a shop that asks it."""
    api = StripeApi()
    with served(api):
        key = f"api_key={API_KEY!r}, api_base={api.url!r}"
        shop.app(SHOP.replace("), mode=", f", {key}), mode=", 1))
        yield api


def effects(shop: Cli) -> list[str]:
    """The ids of the events that had an effect."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        return [row[0] for row in connection.execute("SELECT event_id FROM effects ORDER BY 1")]


def test_it_says_what_is_missing_and_takes_it_in(shop: Cli, stripe: StripeApi) -> None:
    """P-FIND: first the true count, then the deed, and nothing the second time; for people and for programs."""
    for number in range(3):
        stripe.add(f"evt_{number}")
    dry = shop.run("reconcile", "shop:inbox", "shop", "--since", "2d", "--dry-run")
    assert (dry.returncode, dry.stdout) == (0, "seen 3, present 0, missing 3, failed 0, out of reach 0\n")
    assert effects(shop) == []
    done = shop.json("reconcile", "shop:inbox", "shop")
    (walk,) = done.pop("lists")
    assert done == {
        "endpoint": "shop",
        "dry_run": False,
        "good": True,
        **EMPTY,
        "seen": 3,
        "recovered": 3,
    }
    assert (walk["account"], walk["unfit"], walk["error"]) == ("", [], None)
    assert effects(shop) == ["evt_0", "evt_1", "evt_2"]
    told = shop.run("status").stdout.splitlines()[-1]
    assert re.fullmatch(r"reconciled   shop: \d+\.\d s ago, 3 recovered, 0 failed", told)
    again = shop.run("reconcile", "shop:inbox", "shop")
    assert again.stdout == "seen 3, present 3, recovered 0, failed 0, out of reach 0\n"


def test_what_is_not_good_is_told_with_exit_code_1(shop: Cli, stripe: StripeApi) -> None:
    """P-QUIET: what failed and why, what is out of reach, why a list was not walked; never the key."""
    stripe.add("evt_\x1b[31m", type="invoice.paid")
    shop.app((shop.folder / "shop.py").read_text().replace("(%s)", "(%s::integer)", 1))
    done = shop.run("reconcile", "shop:inbox", "shop", "--since", "5w")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "seen 1, present 0, recovered 0, failed 1, out of reach 0",
        "bad: event evt_\\x1b[31m: handler_failed",
        "bad: 5 d 0 h of what was asked for are older than the provider keeps",
    ]
    shop.app((shop.folder / "shop.py").read_text().replace(API_KEY, API_KEY + "_old"))
    refused = shop.run("reconcile", "shop:inbox", "shop")
    assert refused.returncode == 1
    assert "bad: the list was not walked to its end: it answers 401: the api_key is not" in refused.stdout
    (told,) = shop.json("status", "shop:inbox")["reconciles"]
    assert (told["endpoint"], told["failed"], told["complete_seconds"]) == ("shop", 0, None)
    assert told["since_seconds"] == pytest.approx(3 * 86_400, abs=60)
    assert told["last_error"].startswith("it answers 401")
    assert API_KEY not in refused.stdout + refused.stderr + done.stdout + done.stderr
    for arguments in (
        ["shop:inbox", "other"],
        ["shop:inbox", "shop", "--since", "2030-01-01"],
        ["shop:inbox"],
    ):
        assert shop.run("reconcile", *arguments).returncode == 2


def test_a_killed_run_is_gone_on_with(shop: Cli, stripe: StripeApi) -> None:
    """P-ONCE: SIGKILL between two pages; the next run asks for the page it was at, and nothing happens twice."""
    stripe.page_max = 10
    for number in range(40):
        stripe.add(f"evt_{number:02}", ago=3600 + number)
    right = stripe.answer

    def waits_at_the_third(*request: object) -> object:
        if "evt_19" in json.dumps(request):
            stripe.hold.clear()
        return right(*request)  # type: ignore[arg-type]

    stripe.answer = waits_at_the_third  # type: ignore[method-assign, assignment]
    process = shop.start("reconcile", "shop:inbox", "shop")
    assert stripe.holding.wait(SECONDS_MAX)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(SECONDS_MAX)
    booked = len(effects(shop))
    assert 0 < booked < 40
    stripe.answer = right  # type: ignore[method-assign]
    stripe.hold.set()
    busy = shop.json("reconcile", "shop:inbox", "shop", code=1)
    assert busy["lists"][0]["error"] == "another process is at it; try again when it is done"
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        # Two minutes go by.
        connection.execute("UPDATE webhooks.reconciles SET held_until = now() - interval '1 second'")
    stripe.asked.clear()
    done = shop.json("reconcile", "shop:inbox", "shop")
    assert "starting_after=" in stripe.asked[0]
    assert (done["seen"], done["failed"]) == (40, 0)
    assert effects(shop) == [f"evt_{number:02}" for number in range(40)]
