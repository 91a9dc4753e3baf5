"""What ``0001_inbox.sql`` makes; and the models that read our tables, of which Django is told their names alone."""

from __future__ import annotations

from django.db import migrations, models

from webhook_inbox.django import conf
from webhook_inbox.django.operations import BringUp


def _reads(name: str, table: str, key: type[models.Field], **options: object) -> migrations.CreateModel:
    return migrations.CreateModel(
        name=name,
        fields=[("id", key(primary_key=True, serialize=False))],
        options={
            "managed": False,
            "db_table": conf.table(table),
            "default_permissions": ("view",),
            **options,
        },
    )


class Migration(migrations.Migration):
    """The receive side."""

    initial = True
    operations = (
        BringUp(1),
        _reads(
            "Event",
            "inbox",
            models.BigIntegerField,
            permissions=(("view_payload", "Can view the payload and headers of events and messages"),),
        ),
        _reads("Body", "bodies", models.BigIntegerField, default_permissions=()),
        _reads("Attempt", "attempts", models.BigIntegerField),
        _reads("Review", "reviews", models.BigIntegerField),
        _reads("Message", "outbox", models.UUIDField),
    )
