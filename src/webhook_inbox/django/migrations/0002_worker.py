"""What ``0002_worker.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """The worker's side."""

    dependencies = (("webhook_inbox", "0001_inbox"),)
    operations = (BringUp(2),)
