"""The alert rules and the dashboard that are shipped name metrics that there are, and say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from webhook_inbox.cli.main import make_app, run
from webhook_inbox.telemetry.registry import METRICS, Metric
from webhook_inbox.telemetry.shipped import PANELS, alert_rules, dashboard

RULES = {
    match[1]: match[0] for match in re.finditer(r"- alert: (\w+)\n(?:(?!      - alert:).*\n)+", alert_rules())
}
EXPRESSIONS = {
    **{name: text.partition("labels:")[0] for name, text in RULES.items()},
    **{panel.title: panel.expr for panel in PANELS},
}
KNOWN = {
    metric.name + suffix: metric
    for metric in METRICS
    for suffix in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")


def named(expression: str) -> dict[str, Metric]:
    """The metrics in *expression*."""
    return {name: KNOWN[name] for name in re.findall(r"webhook_inbox_\w+", expression)}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_and_label_is_there(name: str) -> None:
    """In the registry; a counter is only looked at by its rate, and a gauge of all workers by its highest."""
    expression = EXPRESSIONS[name]
    metrics = named(expression)
    assert metrics
    labels = {label for metric in metrics.values() for label in metric.labels} | {"le"}
    grouped = {each.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for each in by.split(",")}
    assert grouped <= labels
    assert set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression)) <= labels
    for metric in metrics.values():
        way = {"counter": r"(rate|increase)\(", "histogram": r"rate\(", "gauge": r"(max by|absent|sum)"}
        assert re.search(way[metric.kind], expression)


def test_every_metric_is_looked_at() -> None:
    """By an alert or on the dashboard."""
    looked_at = {metric.name for text in EXPRESSIONS.values() for metric in named(text).values()}
    assert looked_at == {metric.name for metric in METRICS}


@pytest.mark.parametrize("name", RULES)
def test_every_alert_says_what_to_do(name: str) -> None:
    """And names a command that there is; its labels in the text are those that its expression leaves."""
    text = RULES[name]
    verbs: Any = typer.main.get_command(make_app())
    commands = re.findall(r"`webhook-inbox ([a-z]+)(?: ([a-z]+))?", text)
    assert commands
    for verb, sub in commands:
        below = getattr(verbs.commands[verb], "commands", {})
        assert not below or sub in below
    grouped = re.search(r"by \(([^)]*)\)", EXPRESSIONS[name])
    left = {each.strip() for each in grouped[1].split(",")} if grouped else set()
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= left
    assert re.search(r"^ +summary: '?\S.*\.'?$", text, re.MULTILINE)
    assert re.search(r"^ +severity|labels: \{severity: (critical|warning)\}$", text, re.MULTILINE)
    assert f"| {name} |" in PAGE


def test_both_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """As they are to be loaded; the page lists no alert that is not there."""
    assert run(["metrics", "alerts"]) == 0
    assert capsys.readouterr().out == alert_rules()
    assert run(["metrics", "dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == dashboard()
    assert set(re.findall(r"^\| (WebhookInbox\w+) \|", PAGE, re.MULTILINE)) == set(RULES)


def test_no_panel_lies_on_another() -> None:
    """Each has a place, an id and a query of its own."""
    panels = dashboard()["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels) == len(PANELS)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
