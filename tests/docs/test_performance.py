"""No figure of the page is written by hand."""

from __future__ import annotations

from benchmarks.harness.processes import ROOT
from benchmarks.report.data import RESULTS, Results
from benchmarks.report.page import PAGE, PLOTS, render


def test_the_page_and_its_plots_are_what_the_results_draw() -> None:
    """Page and plots are there where results are, and equal what `python -m benchmarks.report` draws from them."""
    drawn = render(Results.read()) if RESULTS.exists() else {}
    files = [*(ROOT / PAGE.parent / PLOTS).glob("*"), *(ROOT / PAGE.parent).glob(PAGE.name)]
    assert {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files} == drawn
