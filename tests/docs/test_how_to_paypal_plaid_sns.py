"""The page about providers whose keys are fetched runs as it stands, but for the network."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tests.source_examples import SNS_TOPIC
from webhook_inbox.testing import InboxTester

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "paypal-plaid-sns.md"
CAPTURE: dict[str, Any] = {
    "id": "WH-1",
    "event_type": "PAYMENT.CAPTURE.COMPLETED",
    "resource": {"id": "C1", "amount": {"value": "10.00", "currency_code": "EUR"}},
}
NEWS = {"webhook_type": "TRANSACTIONS", "webhook_code": "SYNC_UPDATES_AVAILABLE", "item_id": "i1"}
CONFIRMATION = {
    "Type": "SubscriptionConfirmation",
    "MessageId": "m-1",
    "TopicArn": SNS_TOPIC,
    "Token": "t",
    "Message": "m",
    "SubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription",
}
NOTIFICATION = {"Type": "Notification", "MessageId": "m-2", "TopicArn": SNS_TOPIC, "Message": "too hot"}


@pytest.fixture
def page(database: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's blocks define, run in their order."""
    settings = {
        "WEBHOOK_INBOX_DATABASE_URL": database,
        "PAYPAL_WEBHOOK_ID": "FAKEWEBHOOK1",
        "PLAID_CLIENT_ID": "fake-client",
        "PLAID_SECRET": "fake-secret",
        "ALARM_TOPIC_ARN": SNS_TOPIC,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(database) as connection:
        for table in (
            "captures (id text PRIMARY KEY, amount numeric NOT NULL)",
            "bank_transactions (id text PRIMARY KEY, amount numeric NOT NULL)",
            "subscriptions (topic text PRIMARY KEY)",
            "alarms (message text NOT NULL)",
        ):
            connection.execute(f"CREATE TABLE {table}".encode())
    found: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), found)  # noqa: S102 - the page is ours
    return found


def test_each_of_the_three_has_its_effect(
    page: dict[str, Any], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signed by keys of the test's; and what Plaid sends twice is asked for twice, and written once."""
    opened: list[str] = []
    asked: list[str] = []

    @contextmanager
    def urlopen(url: str, timeout: float) -> Iterator[SimpleNamespace]:
        opened.append(url)
        yield SimpleNamespace(status=200)

    def sync_transactions(item_id: str) -> list[tuple[str, str]]:
        asked.append(item_id)
        return [("t1", "5.00"), ("t2", "7.00")]

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    page["sync_transactions"] = sync_transactions
    with InboxTester(page["inbox"]) as tester:
        sent: list[tuple[str, dict[str, Any]]]
        sent = [("paypal", CAPTURE), ("plaid", NEWS), ("alarms", CONFIRMATION), ("alarms", NOTIFICATION)]
        assert {tester.deliver(endpoint, payload).outcome for endpoint, payload in sent} == {"queued"}
        tester.drain()
        assert tester.deliver("paypal", CAPTURE).outcome == "duplicate"
        assert tester.deliver("plaid", NEWS, sent_at=time.time() + 1).outcome == "queued"
        tester.drain()
        assert {event.state for event in tester.events()} == {"processed"}
    assert opened == [CONFIRMATION["SubscribeURL"]]
    assert asked == ["i1", "i1"]
    with psycopg.connect(database) as connection:
        rows = [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1".encode()).fetchall()
            for table in ("captures", "bank_transactions", "subscriptions", "alarms")
        ]
    assert [len(each) for each in rows] == [1, 2, 1, 1]
