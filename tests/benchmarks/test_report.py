"""The page is drawn from the results alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.harness.figures import Spread
from benchmarks.harness.results import merge
from benchmarks.report.charts import Bar, Range, bars, ranges
from benchmarks.report.data import Results
from benchmarks.report.page import PAGE, render

ROWS = [Bar("ours & <yours>", "ours", Spread(900.0, 800.0, 1000.0)), Bar("other", "peers", Spread(1, 1, 1))]


def texts(svg: str) -> list[str]:
    """Every text of a drawing, which must be well-formed."""
    return [each.text or "" for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314


def results(file: Path, **rates: list[float | None]) -> Results:
    """Results of one suite, receive, as the command line writes them."""
    subjects = {
        name: {
            "group": "ours" if name == "queued" else "peers",
            "title": f"the {name}",
            "setting": "as it comes",
            "headline": "per_second",
            "reference": "fastapi_async",
            "runs": [rate and {"per_second": rate, "p50_ms": 1.0, "p99_ms": 2_000 / rate} for rate in given],
        }
        for name, given in rates.items()
    }
    conditions: dict[str, Any] = {
        "measured_at": "2026-01-02T03:04Z",
        "commit": "0123456789ab",
        "machine": dict.fromkeys(
            ("processor", "processors", "memory_gib", "kernel", "system", "python"), "?"
        ),
        "postgres": {"server_version": "18", "fsync": "on"},
        "versions": {"project": {"psycopg": "3"}, "peers": {"stripe": "16"}, "node": {"pg": "8"}},
    }
    suite = {"about": "", "seconds": 1.0, "failures": [], "subjects": subjects, **conditions}
    file.write_text(json.dumps({"suites": {"receive": suite}}))
    return Results.read(file)


def test_bars_are_well_formed_and_say_every_label_and_median() -> None:
    """Nothing is cut off or left unescaped, also on a page that is dark."""
    svg = bars("Rates", "per second", ROWS)
    assert {"ours & <yours>", "other", "900", "1.00"} <= set(texts(svg))
    assert "prefers-color-scheme: dark" in svg


def test_ranges_span_powers_of_ten() -> None:
    """A range is never drawn outside the scale, and one value still has a scale."""
    assert {"1", "10"} <= set(texts(ranges("Latency", "ms", [Range("ours", "ours", 1.0, 1.0)])))
    svg = ranges("Latency", "ms", [Range("ours", "ours", 0.3, 1.0), Range("other", "peers", 40.0, 4_000.0)])
    assert {"0.1", "1", "10", "100", "1000", "10000", "0.300 / 1.00"} <= set(texts(svg))


def test_the_page_compares_within_rounds_and_holds_aims_against_it(tmp_path: Path) -> None:
    """A ratio is the median of the rounds' ratios, and an aim is met by it or not."""
    page = render(
        results(tmp_path / "r.json", queued=[400.0, 900.0, None], fastapi_async=[100.0, 150.0, 9.0])
    )
    text = page[PAGE.as_posix()]
    assert "| receive, queued: rate, of FastAPI, careful | at least 4 | 5.00 (4.00 to 6.00) | yes |" in text
    assert "| receive, queued: rate, of the HTTP limit | at least 0.5 | not measured | |" in text
    assert "| **the queued** | 650 (400 to 900) | 5.00 (4.00 to 6.00) |" in text
    assert set(page) == {
        PAGE.as_posix(),
        "docs/explanation/performance/receive.svg",
        "docs/explanation/performance/receive_latency.svg",
    }


@pytest.mark.parametrize("rates", [{"queued": [None]}, {}])
def test_a_page_without_results_is_a_page(tmp_path: Path, rates: dict[str, list[float | None]]) -> None:
    """A subject without a run that counted is left out; nothing is made up for it."""
    page = render(results(tmp_path / "r.json", **rates))
    assert "the queued" not in page[PAGE.as_posix()]
    assert len(page) == 1


def test_results_of_other_suites_stay(tmp_path: Path) -> None:
    """One suite can be measured again alone; what was measured with another commit says so."""
    file = tmp_path / "r.json"
    merge(file, {"commit": "old"}, {"limits": {"subjects": 1}, "receive": {"subjects": 2}})
    merge(file, {"commit": "new"}, {"receive": {"subjects": 3}})
    suites = json.loads(file.read_text())["suites"]
    assert suites["limits"] == {"subjects": 1, "commit": "old"}
    assert suites["receive"] == {"subjects": 3, "commit": "new"}
