"""Django's admin shows what is in the inbox, changes nothing, and hides payloads from whoever may not see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import call_command
from django.db import connections
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path

from tests.fixtures.benches import django_alias, forget_alias, set_django_up
from tests.fixtures.queue import signed
from tests.fixtures.receiving import stripe_event
from webhook_inbox import Django, Event, GiveUp, Inbox
from webhook_inbox.sources import Stripe

set_django_up()
CANARY = "canary-4711"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
KINDS = ("event", "attempt", "message", "review")
urlpatterns = [path("admin/", admin.site.urls)]
project_inbox: Any = None


def book(tx: Any, event: Event) -> None:
    """Leave a message and a review, or give up."""
    tx.review("look at this", details={"invoice": 7})
    if event.type == "unwanted":
        raise GiveUp("not wanted")
    tx.emit("Booked", {"said": CANARY}, aggregate_type="Invoice", aggregate_id="in_1")


@pytest.fixture
def project(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project whose default database holds Django's tables and ours, with two events, and gives its DSN."""
    alias = django_alias(database)
    monkeypatch.setitem(connections.databases, "default", connections.databases[alias])
    if hasattr(connections["default"], "close"):
        del connections["default"]  # what this thread has of the default that is none
    with override_settings(
        ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE, WEBHOOK_INBOX_APP=f"{__name__}:project_inbox"
    ):
        call_command("migrate", verbosity=0)
        inbox = Inbox(Django("default"))
        monkeypatch.setattr(f"{__name__}.project_inbox", inbox)
        inbox.endpoint("billing", Stripe(secrets="whsec_fake_queue"), mode="inline").on("*")(book)
        for event_id, kind in (("evt_1", "invoice.paid"), ("evt_2", "unwanted")):
            body = stripe_event(event_id, type_=kind, data={"object": {"note": CANARY}})
            assert inbox.receive_sync("billing", headers=signed(body), body=body).status == 200
        yield database
        inbox.close()
    connections["default"].close()
    del connections["default"]
    forget_alias(alias)


def client_of(*permissions: str, superuser: bool = False) -> Client:
    """A browser in which somebody of the staff is logged in."""
    users = apps.get_model("auth", "User").objects
    user = users.create(username=f"user{users.count()}", is_staff=True, is_superuser=superuser)
    wanted = apps.get_model("auth", "Permission").objects.filter(
        codename__in=permissions, content_type__app_label="webhook_inbox"
    )
    assert len(wanted) == len(permissions)
    user.user_permissions.set(wanted)
    client = Client()
    client.force_login(user)
    return client


def model(name: str) -> Any:
    """One of our models."""
    return apps.get_model("webhook_inbox", name)


def pages(client: Client) -> dict[str, str]:
    """Every page of ours: each list, and each row of it."""
    found = {}
    for kind in KINDS:
        urls = [f"/admin/webhook_inbox/{kind}/"]
        urls += [f"{urls[0]}{row.pk}/change/" for row in model(kind).objects.all()]
        for url in urls:
            answer = client.get(url)
            assert answer.status_code == 200, url
            found[url] = answer.content.decode()
    return found


def test_every_row_is_shown(project: str) -> None:
    """Lists and rows, what failed beside its event, by whoever may view them."""
    with psycopg.connect(project) as conn:
        conn.execute(
            "INSERT INTO webhooks.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error_type)"
            " SELECT id, 1, 1, 'w', now(), 0.5, 'retrying', 'builtins.ValueError' FROM webhooks.inbox"
        )
    found = pages(client_of(*(f"view_{kind}" for kind in KINDS)))
    assert len(found) == 4 + 2 + 2 + 1 + 2
    events = found["/admin/webhook_inbox/event/"]
    assert all(text in events for text in ("evt_1", "evt_2", "invoice.paid", "unwanted", "dead", "processed"))
    first = next(
        text for url, text in found.items() if "/event/" in url and "evt_1" in text and "change" in url
    )
    assert "builtins.ValueError" in first
    assert "look at this" in found["/admin/webhook_inbox/review/"]
    assert "in_1" in found["/admin/webhook_inbox/message/"]


@pytest.mark.parametrize(
    ("shown", "permissions", "superuser", "seen"),
    [
        (False, ["view_payload"], False, False),
        (False, [], True, False),
        (True, [], False, False),
        (True, ["view_payload"], False, True),
        (True, [], True, True),
    ],
)
def test_payloads_are_hidden_unless_setting_and_permission_agree(
    project: str, shown: bool, permissions: list[str], superuser: bool, seen: bool
) -> None:
    """P-QUIET: no body, header or message's payload on any page by default, not even for a superuser."""
    client = client_of(*(f"view_{kind}" for kind in KINDS), *permissions, superuser=superuser)
    with override_settings(WEBHOOK_INBOX_ADMIN_PAYLOADS=shown):
        found = pages(client)
    showing = {url for url, text in found.items() if CANARY in text}
    changes = {url for url in found if "change" in url and ("/event/" in url or "/message/" in url)}
    assert showing == (changes if seen else set())
    assert any("stripe-signature" in text.lower() for text in found.values()) is seen
    assert any("hidden; see WEBHOOK_INBOX_ADMIN_PAYLOADS" in text for text in found.values()) is not seen


@pytest.mark.parametrize(
    "query",
    [
        f"message/?payload__said__startswith={CANARY[0]}",
        f"message/?payload__icontains={CANARY}",
        "message/?payload__has_key=said",
    ],
)
def test_what_is_hidden_cannot_be_guessed(project: str, query: str) -> None:
    """P-QUIET: a list that can be filtered by a payload would tell of it, a character at a time."""
    client = client_of(*(f"view_{kind}" for kind in KINDS))
    assert "in_1" in client.get("/admin/webhook_inbox/message/?event_type=Booked").content.decode()
    assert client.get(f"/admin/webhook_inbox/{query}").status_code == 400


def test_a_payload_is_shown_as_text(project: str) -> None:
    """Whatever a sender puts into it: it is no HTML, and a long one is cut."""
    with psycopg.connect(project) as conn:
        conn.execute(
            "UPDATE webhooks.bodies SET body = '<script>alert(1)</script>' || repeat('x', 70000)::bytea"
        )
    with override_settings(WEBHOOK_INBOX_ADMIN_PAYLOADS=True):
        found = pages(client_of(superuser=True))
    text = next(text for url, text in found.items() if "/event/" in url and "change" in url)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "characters more" in text
    assert "x" * 65_537 not in text


def test_a_body_that_is_gone_says_so(project: str) -> None:
    """Payloads age out before their events."""
    with psycopg.connect(project) as conn:
        conn.execute("DELETE FROM webhooks.bodies")
    with override_settings(WEBHOOK_INBOX_ADMIN_PAYLOADS=True):
        found = pages(client_of(superuser=True))
    assert all("not kept" in text for url, text in found.items() if "/event/" in url and "change" in url)


def test_nothing_can_be_changed(project: str) -> None:
    """Not by a superuser, by no form, button or action; and without a permission nothing is shown."""
    client = client_of(superuser=True)
    row = model("Event").objects.get(event_id="evt_2").pk
    before = model("Event").objects.filter(pk=row).values().get()
    base = "/admin/webhook_inbox/event/"
    for url in (f"{base}add/", f"{base}{row}/delete/"):
        assert client.get(url).status_code == client.post(url, {"post": "yes"}).status_code == 403
    assert client.post(f"{base}{row}/change/", {"state": "retrying"}).status_code == 403
    client.post(base, {"action": "delete_selected", "_selected_action": [row], "post": "yes"})
    assert model("Event").objects.filter(pk=row).values().get() == before
    stranger = client_of()
    assert {stranger.get(f"/admin/webhook_inbox/{kind}/").status_code for kind in KINDS} == {403}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"evt_1", "evt_2"}),
        ("?q=evt_1", {"evt_1"}),
        ("?q=evt", set()),
        ("?q=unwanted", {"evt_2"}),
        ("?state__exact=dead", {"evt_2"}),
        ("?endpoint=billing", {"evt_1", "evt_2"}),
        ("?endpoint=other", set()),
        ("?origin__exact=replay", set()),
    ],
)
def test_events_are_searched_and_filtered(project: str, query: str, shown: set[str]) -> None:
    """Exactly, so that an index can serve it; by the endpoints that the project's inbox has."""
    text = client_of("view_event").get(f"/admin/webhook_inbox/event/{query}").content.decode()
    assert {name for name in ("evt_1", "evt_2") if f">{name}</a>" in text} == shown
    assert "?endpoint=billing" in text


def test_a_list_counts_no_further_than_it_must(project: str) -> None:
    """A count of all rows of a large inbox takes seconds."""
    from webhook_inbox.django.admin import COUNT_MAX, CappedPaginator

    client = client_of("view_event")
    with CaptureQueriesContext(connections["default"]) as queries:
        client.get("/admin/webhook_inbox/event/")
    counts = [each["sql"] for each in queries.captured_queries if "COUNT(" in each["sql"]]
    assert counts
    assert all(f"LIMIT {COUNT_MAX}" in each for each in counts)
    with psycopg.connect(project) as conn:
        conn.execute(
            "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes) "
            f"SELECT 'p', 'e', n, 't', 'ignored', '', 0 FROM generate_series(1, {COUNT_MAX}) n"
        )
    assert CappedPaginator(model("Event").objects.order_by("-id"), 100).count == COUNT_MAX
    assert client.get("/admin/webhook_inbox/event/?p=100").status_code == 200


def test_the_models_read_the_database_that_is_meant(project: str, empty_database: str) -> None:
    """Whatever the default is; and their columns are there."""
    other = django_alias(empty_database)
    with override_settings(WEBHOOK_INBOX_DATABASE=other):
        assert model("Event").objects.all().db == other
    for each in apps.get_app_config("webhook_inbox").get_models():
        list(each.objects.all())
    message = model("Message").objects.get()
    assert (message.payload, message.event_type) == ({"said": CANARY}, "Booked")
    review = model("Review").objects.order_by("id").first()
    assert (review.event.event_id, review.details) == ("evt_1", {"invoice": 7})
    forget_alias(other)
