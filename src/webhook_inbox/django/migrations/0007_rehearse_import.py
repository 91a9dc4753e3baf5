"""What ``0007_rehearse_import.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """What a rehearsal asks, and events that an older receiver has processed."""

    dependencies = (("webhook_inbox", "0006_counters"),)
    operations = (BringUp(7),)
