"""Hold the Django receiver's model; its table is the one that all hand-written receivers use."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class WebhookEvent(models.Model):
    """Hold one event."""

    id = models.TextField(primary_key=True)
    type = models.TextField()
    payload = models.JSONField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        """Name the table; it is made before the run."""

        app_label = "benchmark"
        db_table = "webhook_events"
        managed = False

    def __str__(self) -> str:
        return self.id
