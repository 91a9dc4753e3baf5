"""Give every real payload that is an event of its provider, as the provider sends it, with its id and its type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

from tests.deliveries import PAYLOADS, STRIPE_SECRET
from tests.source_examples import FORM, JSON, written
from webhook_inbox import sources
from webhook_inbox.sources import Source

SECRET = "fake-secret-of-payloads"
# In the samples of Slack every text is blank and every id with it; these are put in their place.
SLACK_BLANKS = {b'"event_id": ""': b'"event_id": "Ev%d"', b'"command": ""': b'"command": "/fake"'}

Event = tuple[str, bytes, str, str]  # what it is called, its body, its id or "", its type


def files(folder: str) -> list[Path]:
    """Give every file below *folder*, sorted."""
    return sorted(path for path in (PAYLOADS / folder).rglob("*.json"))


def github() -> Iterator[Event]:
    """272 files: the folder is the event's name, which GitHub sends in a header."""
    for path in files("github"):
        body = path.read_bytes()
        action = json.loads(body).get("action")
        event = path.parent.name
        yield path.name, body, "guid-1", f"{event}.{action}" if action else event


def stripe() -> Iterator[Event]:
    """103 files: whole events, those of Connect among them."""
    for folder in ("events", "events-connect", "events-assembled"):
        for path in files(f"stripe/{folder}"):
            body = path.read_bytes()
            event = json.loads(body)
            yield path.name, body, event["id"], event["type"]


def paddle() -> Iterator[Event]:
    """Whole notifications, the events of a list, and each entity inside the envelope that Paddle puts around it."""
    for path in (PAYLOADS / "paddle" / "webhook_payload.json", *files("paddle/notification")):
        body = path.read_bytes()
        event = json.loads(body)
        yield path.name, body, event["event_id"], event["event_type"]
    listed = json.loads((PAYLOADS / "paddle/events/list_default.json").read_bytes())["data"]
    for event in listed:
        yield event["event_id"], written(event), event["event_id"], event["event_type"]
    for position, path in enumerate(files("paddle/entities")):
        event = {
            "event_id": f"evt_{position}",
            "event_type": path.stem,
            "occurred_at": "2026-01-01T00:00:00Z",
            "notification_id": f"ntf_{position}",
        }
        body = written(event)[:-1] + b',"data":' + path.read_bytes() + b"}"
        yield path.name, body, event["event_id"], event["event_type"]


def slack_events() -> Iterator[Event]:
    """96 files, with the blanks filled that a delivery never leaves."""
    for position, path in enumerate(files("slack/events")):
        body = path.read_bytes()
        for blank, filled in SLACK_BLANKS.items():
            body = body.replace(blank, filled % position if b"%d" in filled else filled)
        yield path.name, body, f"Ev{position}", json.loads(body)["event"]["type"]


def slack_forms() -> Iterator[Event]:
    """9 files: interactivity as JSON in a form, and a slash command as the form itself."""
    for path in files("slack/app-backend"):
        payload = json.loads(path.read_bytes())
        if "command" in payload:
            yield path.name, urlencode(payload | {"command": "/fake"}).encode(), "", "slash_command"
        else:
            yield path.name, urlencode({"payload": json.dumps(payload)}).encode(), "", payload["type"]


def shopify() -> Iterator[Event]:
    """23 files: the body of a webhook is the object inside."""
    for path in files("shopify"):
        (resource,) = json.loads(path.read_bytes()).values()
        topic = f"{path.stem}/updated"
        for each in resource if isinstance(resource, list) else [resource]:
            yield path.name, written(each), f"guid-1|{topic}", topic


Make = Callable[[str], Source]
FAMILIES: dict[str, tuple[str, Make, str, Callable[[], Iterator[Event]], tuple[str, str], int]] = {
    "github": ("github", sources.GitHub, SECRET, github, JSON, 272),
    "stripe": ("stripe", sources.Stripe, STRIPE_SECRET, stripe, JSON, 103),
    "paddle": ("paddle", sources.Paddle, SECRET, paddle, JSON, 70),
    "slack events": ("slack", sources.Slack, SECRET, slack_events, JSON, 96),
    "slack forms": ("slack", sources.Slack, SECRET, slack_forms, FORM, 9),
    "shopify": ("shopify", sources.Shopify, SECRET, shopify, JSON, 28),
}
