"""Fault points can be recorded, named and died at; a death leaves its witness."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from webhook_inbox.testing.points import Passing, PointRecorder

DIES = """
import sys
from pathlib import Path
from webhook_inbox.testing.points import Passing, PointKiller

killer = PointKiller(Path(sys.argv[1]))
killer("record_one.commit.before")
killer.arm(Passing.parse(sys.argv[2]))
for _ in range(3):
    killer("record_one.begin.before")
    print("begun", flush=True)
    killer("record_one.commit.before")
"""


def die(witness: Path, passing: str) -> subprocess.CompletedProcess[str]:
    """Pass two points three times in a process that shall die at *passing*."""
    command = [sys.executable, "-c", DIES, str(witness), passing]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_passings_are_counted_by_point_and_in_order() -> None:
    """The n-th passing of a point is its own; ``take`` begins anew."""
    recorder = PointRecorder()
    for point in ("answer.before", "answer.after", "answer.before"):
        recorder(point)
    expected = (Passing("answer.before"), Passing("answer.after"), Passing("answer.before", 2))
    assert recorder.passings == recorder.take() == expected
    recorder("answer.before")
    assert recorder.take() == (Passing("answer.before", 1),)


def test_a_passing_is_read_as_it_is_written() -> None:
    """``str`` and ``parse`` are each other's inverse."""
    passing = Passing("record_batch.savepoint.after", 12)
    assert str(passing) == "record_batch.savepoint.after#12"
    assert Passing.parse(str(passing)) == passing


@pytest.mark.parametrize("text", ["", "answer.before", "answer.before#", "answer.before#0", "#1", "answer#x"])
def test_what_is_no_passing_is_refused(text: str) -> None:
    """A typing error must not become a point that nobody passes."""
    with pytest.raises(ValueError, match="fault point"):
        Passing.parse(text)


def test_a_killer_dies_at_its_passing_by_sigkill_and_leaves_a_witness(tmp_path: Path) -> None:
    """Counted from when it was armed; what was passed before does not count."""
    died = die(tmp_path / "witness", "record_one.commit.before#2")
    assert died.returncode == -signal.SIGKILL
    assert died.stdout == "begun\nbegun\n"
    pid, passing = (tmp_path / "witness").read_text().split()
    assert pid.isdecimal()
    assert passing == "record_one.commit.before#2"


def test_a_killer_lives_on_where_its_passing_does_not_come(tmp_path: Path) -> None:
    """No death without the point, and no witness."""
    lived = die(tmp_path / "witness", "record_one.commit.before#4")
    assert lived.returncode == 0, lived.stderr
    assert not (tmp_path / "witness").exists()
