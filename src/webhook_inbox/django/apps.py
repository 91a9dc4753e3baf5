"""Tell Django who we are."""

from __future__ import annotations

from django.apps import AppConfig


class WebhookInboxConfig(AppConfig):
    """The app ``webhook_inbox``."""

    name = "webhook_inbox.django"
    label = "webhook_inbox"
    verbose_name = "Webhook inbox"

    def ready(self) -> None:
        """Register the system checks."""
        from webhook_inbox.django.checks import register

        register()
