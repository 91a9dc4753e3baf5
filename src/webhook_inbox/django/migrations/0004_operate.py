"""What ``0004_operate.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """The operator's side."""

    dependencies = (("webhook_inbox", "0003_relay"),)
    operations = (BringUp(4),)
