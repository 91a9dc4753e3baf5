"""Print what people need to look at the metrics: alert rules for Prometheus, a dashboard for Grafana."""

from __future__ import annotations

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.output import tell


def print_alerts() -> int:
    """Print alert rules for Prometheus, a rule file; each says what to do, and names the command."""
    from webhook_inbox.telemetry.shipped import alert_rules

    tell(alert_rules().rstrip("\n"))
    return GOOD


def print_dashboard() -> int:
    """Print a dashboard for Grafana, JSON to be imported there."""
    import json

    from webhook_inbox.telemetry.shipped import dashboard

    tell(json.dumps(dashboard(), indent=2))
    return GOOD
