"""
Ship what people need to look at the metrics: alert rules for Prometheus, a dashboard for Grafana.

The rules are ``alerts.yaml``. The dashboard is written from ``PANELS``: a figure is a line there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

_COLUMNS = 2
_WIDTH, _HEIGHT = 24 // _COLUMNS, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """
    Describe one figure.

    Attributes:
        title: Above it.
        expr: PromQL.
        legend: Of each line, from labels.
        unit: Grafana's.
    """

    title: str
    expr: str
    legend: str
    unit: str = "short"


PANELS = (
    Panel(
        "Deliveries a second, by outcome",
        "sum by (outcome) (rate(webhook_inbox_deliveries_total[$__rate_interval]))",
        "{{outcome}}",
        "reqps",
    ),
    Panel(
        "Time within which 99 of 100 are answered",
        "histogram_quantile(0.99, sum by (endpoint, le) "
        "(rate(webhook_inbox_receive_seconds_bucket[$__rate_interval])))",
        "{{endpoint}}",
        "s",
    ),
    Panel(
        "Refused (4xx) a second, by reason",
        "sum by (endpoint, reason) (rate(webhook_inbox_rejections_total[$__rate_interval]))",
        "{{endpoint}}: {{reason}}",
        "reqps",
    ),
    Panel(
        "Failed (5xx) a second, by reason",
        "sum by (endpoint, reason) (rate(webhook_inbox_failures_total[$__rate_interval]))",
        "{{endpoint}}: {{reason}}",
        "reqps",
    ),
    Panel(
        "Events that are not settled",
        "max by (endpoint, state) (webhook_inbox_events)",
        "{{endpoint}}: {{state}}",
    ),
    Panel(
        "Age of the oldest event without its effect",
        "max by (endpoint) (webhook_inbox_oldest_event_seconds)",
        "{{endpoint}}",
        "s",
    ),
    Panel(
        "Runs of events a second, by outcome",
        "sum by (endpoint, outcome) (rate(webhook_inbox_runs_total[$__rate_interval]))",
        "{{endpoint}}: {{outcome}}",
        "reqps",
    ),
    Panel(
        "Time from delivery to effect within which 99 of 100 are",
        "histogram_quantile(0.99, sum by (endpoint, le) "
        "(rate(webhook_inbox_effect_seconds_bucket[$__rate_interval])))",
        "{{endpoint}}",
        "s",
    ),
    Panel(
        "Sends a second, by outcome",
        "sum by (destination, outcome) (rate(webhook_inbox_sends_total[$__rate_interval]))",
        "{{destination}}: {{outcome}}",
        "reqps",
    ),
    Panel(
        "How long the oldest due message has been due",
        "max by (destination) (webhook_inbox_outbox_lag_seconds)",
        "{{destination}}",
        "s",
    ),
    Panel(
        "Destinations that are left alone",
        "max by (destination) (webhook_inbox_breaker_open)",
        "{{destination}}",
    ),
    Panel(
        "Messages that nothing sends by itself",
        "max by (state) (webhook_inbox_outbox_stuck_messages)",
        "{{state}}",
    ),
    Panel(
        "Events that the provider was asked for, a day",
        "sum by (endpoint, result) (increase(webhook_inbox_reconciled_total[1d]))",
        "{{endpoint}}: {{result}}",
    ),
    Panel(
        "Since when it is not known whether everything arrived",
        "time() - max by (endpoint) (webhook_inbox_reconciled_timestamp_seconds)",
        "{{endpoint}}",
        "s",
    ),
    Panel(
        "Other bodies under a known id, an hour",
        "sum by (endpoint) (increase(webhook_inbox_conflicts_total[1h]))",
        "{{endpoint}}",
    ),
    Panel(
        "Bytes of bodies a second",
        "sum by (endpoint) (rate(webhook_inbox_body_bytes_total[$__rate_interval]))",
        "{{endpoint}}",
        "Bps",
    ),
    Panel("Requests under way", "sum(webhook_inbox_requests_in_flight)", "requests"),
)


def alert_rules() -> str:
    """Give the rule file for Prometheus, YAML."""
    return files("webhook_inbox.telemetry").joinpath("alerts.yaml").read_text(encoding="utf-8")


def dashboard() -> dict[str, Any]:
    """Give the dashboard as Grafana imports it; it asks for the data source itself."""
    return {
        "title": "webhook-inbox",
        "uid": "webhook-inbox",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "A", "datasource": _DATASOURCE, "expr": panel.expr, "legendFormat": panel.legend}
        ],
    }
