"""Where the signature leaves out the id or a part of the event, a second body under one id is evidence, no event."""

from __future__ import annotations

import json
import logging
import time
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from tests.source_examples import ADYEN, ADYEN_KEY, GITHUB, JIRA, MAILGUN, SHOPIFY
from webhook_inbox import Inbox, Outcome, Receipt, sources
from webhook_inbox.sources import Source
from webhook_inbox.testing.signers import SIGNERS, Draft

SECRET = "fake-secret"
#: By provider: the source, its secret, a body, and a text in it with what stands there in the second one.
CASES: dict[str, tuple[Source, str, bytes, tuple[bytes, bytes]]] = {
    "adyen": (sources.Adyen(ADYEN_KEY), ADYEN_KEY, ADYEN, (b'"success"', b'"reason":"other","success"')),
    "github": (sources.GitHub(SECRET), SECRET, GITHUB, (b'"number":1', b'"number":2')),
    "jira": (sources.Jira(SECRET), SECRET, JIRA, (b"{", b'{"other":1,')),
    "mailgun": (sources.Mailgun(SECRET), SECRET, MAILGUN, (b'"permanent"', b'"permanent","reason":"other"')),
    "shopify": (sources.Shopify(SECRET), SECRET, SHOPIFY, (b"buyer@", b"other@")),
}


def deliver(inbox: Inbox, name: str, draft: Draft) -> Receipt:
    """Sign as the provider and deliver."""
    made = SIGNERS[name](draft)
    headers = [("content-type", "application/json"), *made.headers]
    return inbox.receive_sync(name, method="POST", url="https://h/", headers=headers, body=made.body)


@pytest.mark.parametrize("name", CASES)
def test_a_second_body_under_one_id_is_kept_and_flagged(
    database: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """P-DUP, design 5.1: never applied, never dropped; log, receipt and view say so; the first one stays."""
    source, secret, body, (old, new) = CASES[name]
    assert not source.signed_id
    other = body.replace(old, new)
    assert json.loads(other) != json.loads(body)
    first = Draft(
        body=body, secret=secret, event_id="evt_1", event_type="issues.opened", timestamp=int(time.time())
    )
    with closing(Inbox(database)) as inbox, caplog.at_level(logging.WARNING, logger="webhook_inbox"):
        inbox.endpoint(name, source)
        taken, again, changed = (
            deliver(inbox, name, each) for each in (first, first, replace(first, body=other))
        )
    assert {result.outcome for result in taken.results} == {Outcome.IGNORED}
    for receipt in (again, changed):
        assert (receipt.status, {each.outcome for each in receipt.results}) == (200, {Outcome.DUPLICATE})
    assert not any(result.conflicting for result in again.results)
    assert all(result.conflicting for result in changed.results)
    told = [record for record in caplog.records if record.__dict__["event"] == "event_conflicting"]
    assert len(told) == len(changed.results)
    with psycopg.connect(database) as connection:
        events = connection.execute("SELECT body, conflicting FROM webhooks.events").fetchall()
        evidence = connection.execute("SELECT body FROM webhooks.conflicts").fetchall()
    assert len(events) == len(evidence) == len(taken.results)
    assert all(conflicting for _, conflicting in events)
    assert not {bytes(kept) for kept, _ in events} & {bytes(kept) for (kept,) in evidence}
