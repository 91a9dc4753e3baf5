"""What an audit breaks, it mends; and what it could not mend, it does not break."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.breakage import broken

SECONDS_MAX = 30


@pytest.mark.parametrize("mending", ["no-such-program-anywhere", "touch 'unclosed", ""])
def test_nothing_is_broken_that_could_not_be_mended(tmp_path: Path, mending: str) -> None:
    """It is refused by name before the first command runs."""
    with (
        pytest.raises(ConfigurationError, match="--mend cannot be run"),
        broken(f"touch {tmp_path}/broken", mending),
    ):
        raise AssertionError("it was broken")
    assert not list(tmp_path.iterdir())


def test_it_is_mended_whatever_happens_meanwhile(tmp_path: Path) -> None:
    """The failure of a check goes on once the mend has run."""
    with pytest.raises(KeyError), broken(f"touch {tmp_path}/broken", f"touch {tmp_path}/mended"):
        raise KeyError
    assert {each.name for each in tmp_path.iterdir()} == {"broken", "mended"}


def test_an_interrupt_while_it_is_mended_lets_it_be_mended(tmp_path: Path) -> None:
    """Ctrl-C goes to everything at the terminal; the mend comes to its end, and then the audit to its own."""
    mend = tmp_path / "mend"
    mend.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/begun\nread line < {tmp_path}/go\ntouch {tmp_path}/mended\n"
    )
    mend.chmod(0o755)
    os.mkfifo(tmp_path / "go")
    program = f"from webhook_inbox.testing.audit.breakage import broken\nwith broken('true', '{mend}'): pass"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as audit:
        with (tmp_path / "go").open("w") as go:  # opens once the mend reads it
            os.killpg(audit.pid, signal.SIGINT)
            go.write("on\n")
        assert audit.wait(SECONDS_MAX) != 0
    assert (tmp_path / "mended").exists()
