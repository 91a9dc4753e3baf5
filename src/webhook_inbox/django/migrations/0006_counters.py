"""What ``0006_counters.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """What leaves no row, counted; and who may make and drop days."""

    dependencies = (("webhook_inbox", "0005_reconcile"),)
    operations = (BringUp(6),)
