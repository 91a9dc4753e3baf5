"""P-QUIET: an unexpected exception is told by its type; of a missing module, its name too. What is said is readable."""

from __future__ import annotations

import pytest
import typer

from webhook_inbox.cli.failures import BAD, USAGE, report_defect
from webhook_inbox.cli.main import make_app, run

GROUPS = [group.name or "" for group in make_app().registered_groups]


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


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_without_a_verb_lists_its_verbs(capsys: pytest.CaptureFixture[str], group: str) -> None:
    """The same help as of --help, line by line, on stderr: nothing was asked. Exit 2."""
    assert run([group, "--help"]) == 0
    help_of = capsys.readouterr().out
    assert run([group]) == USAGE
    told = capsys.readouterr()
    assert (told.out, told.err.rstrip()) == ("", help_of.rstrip())
    assert "Commands:" in told.err
    assert "\\n" not in told.err


def test_a_mistake_in_several_lines_is_told_in_several_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of it holds an escape but for what does not show as itself."""

    def fail(*_: object, **__: object) -> None:
        raise typer.BadParameter("Choose from:\n\tone,\n\ttwo\x1b.")

    monkeypatch.setattr("webhook_inbox.cli.main.make_app", lambda: fail)
    assert run([]) == USAGE
    assert capsys.readouterr().err.splitlines() == [
        "webhook-inbox: invalid value: Choose from:",
        "        one,",
        "        two\\x1b",
        "Try 'webhook-inbox --help'.",
    ]
