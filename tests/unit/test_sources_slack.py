"""Slack's events, commands and interactions are named each in its way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.deliveries import delivery, secrets
from tests.source_examples import FORM, SLACK, SLACK_ACTION, SLACK_COMMAND, digest
from webhook_inbox.sources import Answer, Identity, Slack, Unreadable

SOURCE = Slack("fake-slack-signing-secret")


def identify(body: bytes, *headers: tuple[str, str]) -> Identity | Unreadable:
    """Ask for the one reading."""
    (reading,) = SOURCE.identify(delivery(body, headers))
    return reading


def test_an_event_has_its_own_id_the_inner_type_and_the_team() -> None:
    """The outer type is the same for all."""
    assert identify(SLACK) == Identity(
        event_id="Ev1", event_type="message", account="T1", created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"type":"event_callback","event":{"type":"message"}}', "no event id at $.event_id"),
        (b'{"type":"event_callback","event_id":"","event":{"type":"message"}}', "no event id at $.event_id"),
        (b'{"type":"event_callback","event_id":"E"}', "no event type at $.event.type"),
        (b'{"event_id":"E"}', "no event type at $.type"),
        (b"text=1", "not JSON at character 0"),
    ],
)
def test_an_event_that_cannot_be_named_is_quarantined(body: bytes, reason: str) -> None:
    """Never named by its bytes where Slack names events."""
    assert identify(body) == Unreadable(reason=reason)


def test_what_slack_gives_no_id_is_named_by_its_bytes() -> None:
    """They hold a trigger id of their own; the notice about rates holds its minute."""
    limited = b'{"token":"t","type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820}'
    assert identify(limited) == Identity(
        event_id=digest(limited), event_type="app_rate_limited", account="T1"
    )
    assert identify(SLACK_COMMAND, FORM) == Identity(
        event_id=digest(SLACK_COMMAND), event_type="slash_command", account="T1"
    )
    assert identify(SLACK_ACTION, FORM) == Identity(
        event_id=digest(SLACK_ACTION), event_type="block_actions", account="T1"
    )


def test_only_the_handshake_is_answered_and_nothing_in_it_is_obeyed() -> None:
    """As text that no browser takes for a page."""
    body = b'{"type":"url_verification","challenge":"<script>\\u00e9\\ud800"}'
    answer = SOURCE.answer(delivery(body), secrets(SOURCE))
    assert answer == Answer(
        headers=(("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")),
        body="<script>é?".encode(),
    )
    for other in (SLACK, SLACK_COMMAND, b"[]", b'{"type":"event_callback","challenge":"c"}'):
        assert SOURCE.answer(delivery(other), secrets(SOURCE)) is None
