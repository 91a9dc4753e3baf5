"""What ``0008_validate_origin.sql`` makes."""

from __future__ import annotations

from django.db import migrations

from webhook_inbox.django.operations import BringUp


class Migration(migrations.Migration):
    """The list of ways in which an event came, looked through."""

    dependencies = (("webhook_inbox", "0007_rehearse_import"),)
    operations = (BringUp(8),)
