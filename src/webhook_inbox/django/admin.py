"""
Show events, attempts, messages and reviews in Django's admin, to be read.

Payloads and headers are hidden unless the setting ``WEBHOOK_INBOX_ADMIN_PAYLOADS`` is on, and then shown to those who
have the permission ``webhook_inbox.view_payload`` (P-QUIET). Whoever wants to change something uses ``webhook-inbox``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webhook_inbox.django import conf
from webhook_inbox.django.models import Attempt, Body, Event, Message, Review

COUNT_MAX = 10_000
_SHOWN_MAX = 65_536
_HIDDEN = "hidden; see WEBHOOK_INBOX_ADMIN_PAYLOADS"


class CappedPaginator(Paginator):
    """Count no further than ``COUNT_MAX``: to count millions of events takes seconds, and nobody leafs through them."""

    @cached_property
    def count(self) -> int:
        """Give the number of rows, at most ``COUNT_MAX``."""
        return int(self.object_list[:COUNT_MAX].count())


class _ReadOnly:
    """Let nobody add, change or delete."""

    def has_add_permission(self, *_: object) -> bool:
        return False

    def has_change_permission(self, *_: object) -> bool:
        return False

    def has_delete_permission(self, *_: object) -> bool:
        return False


class _OurAdmin(_ReadOnly, admin.ModelAdmin):
    """
    Show rows, newest first.

    Attributes:
        secrets: What is shown only to those who may see payloads; each is a column, or a method of the class.
    """

    paginator = CappedPaginator
    show_full_result_count = False
    ordering: Sequence[str] = ("-id",)
    secrets: tuple[str, ...] = ()

    def get_fields(self, request: Any, obj: Any = None) -> list[str]:
        """List what one row is shown by."""
        columns = [field.name for field in self.model._meta.fields if field.name not in self.secrets]  # noqa: SLF001 - Django's documented API
        shown = (
            self.secrets if may_see_payloads(request.user) else [f"hidden_{each}" for each in self.secrets]
        )
        return [*columns, *shown]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        """List the same: nothing can be edited."""
        return self.get_fields(request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Refuse to filter by a secret, as Django would let a URL do: a list so filtered tells of it (P-QUIET)."""
        # Without the request, which Django 4.2 does not take: no filter of ours needs it.
        return lookup.partition("__")[0] not in self.secrets and bool(super().lookup_allowed(lookup, value))


class EndpointFilter(admin.SimpleListFilter):
    """Offer the endpoints of the project's ``Inbox``; to look for those in the table would read all of it."""

    title = "endpoint"
    parameter_name = "endpoint"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        """List them."""
        inbox = conf.inbox()
        return [(name, name) for name in inbox.endpoint_modes] if inbox is not None else []

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Keep what came to the chosen one."""
        return queryset.filter(endpoint=self.value()) if self.value() else queryset


class AttemptInline(_ReadOnly, admin.TabularInline):
    """List the failures of one event beside it."""

    model = Attempt
    fields = readonly_fields = (
        "attempt",
        "started_at",
        "seconds",
        "outcome",
        "error_type",
        "sqlstate",
        "error",
    )
    show_change_link = True
    extra = 0
    ordering = ("id",)
    verbose_name_plural = "attempts that failed"


@admin.register(Event)
class EventAdmin(_OurAdmin):
    """Events, with what failed."""

    list_display = ("event_id", "event_type", "endpoint", "state", "attempts", "received_at", "processed_at")
    list_filter = (EndpointFilter, "state", "origin")
    search_fields = ("event_id__exact", "event_type__exact", "order_key__exact")
    search_help_text = "An event's ID, type or order key, exactly."
    inlines = (AttemptInline,)
    secrets = ("headers", "body")

    def headers(self, event: Event) -> SafeString:
        """Show the headers that were kept; those that carry credentials never are."""
        kept = _kept(event)
        return _text("not kept" if kept is None else json.dumps(kept.headers, indent=2, ensure_ascii=False))

    def body(self, event: Event) -> SafeString:
        """Show the exact bytes as text."""
        kept = _kept(event)
        return _text("not kept" if kept is None else bytes(kept.body).decode(errors="backslashreplace"))

    @admin.display(description="headers")
    def hidden_headers(self, _: Event) -> str:
        """Say that there are some."""
        return _HIDDEN

    @admin.display(description="body")
    def hidden_body(self, _: Event) -> str:
        """Say that there is one."""
        return _HIDDEN


@admin.register(Attempt)
class AttemptAdmin(_OurAdmin):
    """Runs that failed, with their tracebacks."""

    list_display = ("event", "attempt", "outcome", "error_type", "sqlstate", "started_at")
    list_select_related = ("event",)
    search_fields = ("event__event_id__exact", "error_type__exact")
    search_help_text = "An event's ID or the type of an exception, exactly."


@admin.register(Message)
class MessageAdmin(_OurAdmin):
    """The outbox."""

    list_display = ("event_type", "aggregate_type", "aggregate_id", "created_at", "published_at")
    list_filter = (("published_at", admin.EmptyFieldListFilter),)
    search_fields = ("aggregate_id__exact", "event_type__exact")
    search_help_text = "An aggregate's ID or a message's type, exactly."
    ordering = ("-created_at", "-id")
    secrets = ("payload",)

    @admin.display(description="payload")
    def hidden_payload(self, _: Message) -> str:
        """Say that there is one."""
        return _HIDDEN


@admin.register(Review)
class ReviewAdmin(_OurAdmin):
    """What a person must look at."""

    list_display = ("summary", "endpoint", "event_key", "created_at", "resolved_at")
    list_filter = (("resolved_at", admin.EmptyFieldListFilter),)
    search_fields = ("event_key__exact",)
    search_help_text = "An event's ID, exactly."


def may_see_payloads(user: Any) -> bool:
    """Say whether *user* is shown payloads and headers."""
    return conf.admin_payloads() and bool(user.has_perm("webhook_inbox.view_payload"))


def _kept(event: Event) -> Body | None:
    # By both columns: bodies lie in partitions by the day on which they came.
    came = Event.objects.filter(pk=event.pk).values("received_at")[:1]
    found: Body | None = Body.objects.filter(pk=event.pk, received_at=came).first()
    return found


def _text(text: str) -> SafeString:
    more = f"\n... and {len(text) - _SHOWN_MAX} characters more" if len(text) > _SHOWN_MAX else ""
    shown: SafeString = format_html("<pre>{}{}</pre>", text[:_SHOWN_MAX], more)
    return shown
