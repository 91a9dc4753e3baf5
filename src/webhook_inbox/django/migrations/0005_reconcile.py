"""What ``0005_reconcile.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """What reconcile knows."""

    dependencies = (("webhook_inbox", "0004_operate"),)
    operations = (BringUp(5),)
