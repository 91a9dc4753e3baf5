"""
Show our tables to Django's ORM, to be read: the admin does, and reports may.

Nothing is ever written through them, and columns that nobody would look at are left out.
"""

from __future__ import annotations

from typing import Any

from django.db import models

from webhook_inbox.django import conf
from webhook_inbox.model.states import State

_VIEW = ("view",)


class OurManager(models.Manager):
    """Read from the database that ``WEBHOOK_INBOX_DATABASE`` names."""

    def get_queryset(self) -> Any:
        """Give all rows."""
        return super().get_queryset().using(conf.alias())


class Event(models.Model):
    """One event, whatever it came to."""

    id = models.BigIntegerField(primary_key=True)
    provider = models.TextField()
    endpoint = models.TextField()
    account = models.TextField(blank=True)
    environment = models.TextField(blank=True)
    event_id = models.TextField("event ID")
    event_type = models.TextField()
    state = models.TextField(choices=[(each.value, each.value) for each in State])
    origin = models.TextField(
        choices=[(each, each) for each in ("delivery", "reconcile", "replay", "import")]
    )
    created_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField()
    available_at = models.DateTimeField()
    processed_at = models.DateTimeField(null=True)
    attempts = models.IntegerField()
    order_key = models.TextField(null=True)
    give_up_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    body_bytes = models.IntegerField("size of the body in bytes")

    objects = OurManager()

    class Meta:
        managed = False
        db_table = conf.table("inbox")
        default_permissions = _VIEW
        permissions = (("view_payload", "Can view the payload and headers of events and messages"),)

    def __str__(self) -> str:
        """Name it by its type and id."""
        return f"{self.event_type} {self.event_id}"


class Body(models.Model):
    """The exact bytes and the headers of one event; its id is the event's."""

    id = models.BigIntegerField(primary_key=True)
    received_at = models.DateTimeField()
    body = models.BinaryField()
    headers = models.JSONField()

    objects = OurManager()

    class Meta:
        managed = False
        db_table = conf.table("bodies")
        default_permissions = ()

    def __str__(self) -> str:
        """Name it by its event; show nothing of it."""
        return f"body of event {self.pk}"


class Attempt(models.Model):
    """One run of an event's handlers that did not end in ``processed``."""

    id = models.BigIntegerField(primary_key=True)
    event = models.ForeignKey(
        Event, models.DO_NOTHING, db_column="inbox_id", db_constraint=False, related_name="failures"
    )
    attempt = models.IntegerField()
    worker = models.TextField()
    started_at = models.DateTimeField()
    seconds = models.FloatField()
    outcome = models.TextField()
    error_type = models.TextField(blank=True)
    sqlstate = models.TextField("SQLSTATE", blank=True)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)

    objects = OurManager()

    class Meta:
        managed = False
        db_table = conf.table("attempts")
        default_permissions = _VIEW

    def __str__(self) -> str:
        """Name it by its number and what it came to."""
        return f"attempt {self.attempt}: {self.outcome}"


class Review(models.Model):
    """What a handler asked a person to look at."""

    id = models.BigIntegerField(primary_key=True)
    event = models.ForeignKey(
        Event, models.DO_NOTHING, db_column="inbox_id", db_constraint=False, related_name="reviews"
    )
    endpoint = models.TextField()
    event_key = models.TextField("event ID", db_column="event_id")
    summary = models.TextField()
    details = models.JSONField()
    created_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    objects = OurManager()

    class Meta:
        managed = False
        db_table = conf.table("reviews")
        default_permissions = _VIEW

    def __str__(self) -> str:
        """Give its summary."""
        return str(self.summary)


class Message(models.Model):
    """One message of the outbox."""

    id = models.UUIDField(primary_key=True)
    aggregate_type = models.TextField(blank=True)
    aggregate_id = models.TextField("aggregate ID", blank=True)
    event_type = models.TextField()
    payload = models.JSONField()
    created_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)

    objects = OurManager()

    class Meta:
        managed = False
        db_table = conf.table("outbox")
        default_permissions = _VIEW

    def __str__(self) -> str:
        """Name it by its type and id."""
        return f"{self.event_type} {self.pk}"
