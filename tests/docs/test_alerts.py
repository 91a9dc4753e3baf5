"""Prometheus' own checker takes the shipped rules, and tells each alert when it is due and not before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from webhook_inbox.telemetry.shipped import PANELS, alert_rules

SECONDS_MAX = 60


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A folder with the rules as they are printed."""
    (tmp_path / "alerts.yaml").write_text(alert_rules(), encoding="utf-8")
    return tmp_path


def promtool(*arguments: str, within: Path) -> str:
    """What it says; it exits 0."""
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=within,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid(rules: Path) -> None:
    """All of them."""
    count = alert_rules().count("- alert:")
    assert f"{count} rules found" in promtool("check", "rules", "alerts.yaml", within=rules)


def test_each_alert_is_told_when_it_is_due(rules: Path) -> None:
    """And none where all is well; see the file for the cases."""
    cases = (Path(__file__).parent / "alerts.test.yaml").read_text(encoding="utf-8")
    (rules / "cases.yaml").write_text(cases, encoding="utf-8")
    for alert in (line.split()[-1] for line in alert_rules().splitlines() if "- alert:" in line):
        assert cases.count(alert) > 1, f"no case has {alert}"
    assert "SUCCESS" in promtool("test", "rules", "cases.yaml", within=rules)


def test_the_dashboard_asks_what_can_be_asked(rules: Path) -> None:
    """Each panel's expression is PromQL."""
    recorded = "".join(
        f"      - record: panel:{number}\n        expr: '{panel.expr.replace('$__rate_interval', '5m')}'\n"
        for number, panel in enumerate(PANELS)
    )
    (rules / "panels.yaml").write_text(f"groups:\n  - name: panels\n    rules:\n{recorded}", encoding="utf-8")
    assert f"{len(PANELS)} rules found" in promtool("check", "rules", "panels.yaml", within=rules)
