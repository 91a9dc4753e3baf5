"""The page of evidence names tests that there are, and is made of what is listed and counted."""

from __future__ import annotations

from tests.docs.evidence import ROOT, TRIED, page

PAGE = ROOT / "docs" / "explanation" / "evidence.md"


def test_the_page_is_made_from_what_is_tried() -> None:
    """After a change: ``python -m tests.docs.evidence > docs/explanation/evidence.md``."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_what_is_tried_is_there() -> None:
    """Every file that the page names holds tests."""
    for rows in TRIED.values():
        for _, where in rows:
            assert "def test_" in (ROOT / where).read_text(encoding="utf-8"), where


def test_every_file_of_faults_and_schedules_is_on_the_page() -> None:
    """A new one cannot be forgotten; not meant are those about the tests, or a part of what is listed."""
    listed = {where for rows in TRIED.values() for _, where in rows}
    meant = {
        path.relative_to(ROOT).as_posix()
        for room in ("faults", "schedules")
        for path in (ROOT / "tests" / room).glob("test_*.py")
    }
    unlisted = {
        "tests/faults/test_fault_points.py",
        "tests/faults/test_secret_rotation.py",
        "tests/faults/test_worker_receives.py",
        "tests/faults/test_worker_volume.py",
        "tests/schedules/test_explorer.py",
    }
    assert meant - listed == unlisted
