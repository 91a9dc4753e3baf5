"""What ``0009_limits.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """What an operator bounds of an endpoint while it runs."""

    dependencies = (("webhook_inbox", "0008_validate_origin"),)
    operations = (BringUp(9),)
