"""P-QUIET: an unexpected exception is told by its type; of a missing module, its name too."""

from __future__ import annotations

import pytest

from webhook_inbox.cli.failures import BAD, report_defect


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'nonesuch'", name="nonesuch"),
            "ModuleNotFoundError (nonesuch);",
        ),
        (ModuleNotFoundError("canary"), "ModuleNotFoundError;"),
        (ValueError("canary"), "ValueError;"),
    ],
    ids=["module", "nameless", "value"],
)
def test_a_defect_is_told_without_its_text(
    capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    """Exit 1, and the text of whoever raised it stays out."""
    assert report_defect(error) == BAD
    shown = capsys.readouterr().err
    assert f"unexpected {said}" in shown
    assert "canary" not in shown
