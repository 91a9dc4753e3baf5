"""What ``0003_relay.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """The relay's side."""

    dependencies = (("webhook_inbox", "0002_worker"),)
    operations = (BringUp(3),)
