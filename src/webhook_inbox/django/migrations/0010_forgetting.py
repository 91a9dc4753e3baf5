"""What ``0010_forgetting.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """How far forgetting has come, and what erasing and reconciling have to know."""

    dependencies = (("webhook_inbox", "0009_limits"),)
    operations = (BringUp(10),)
