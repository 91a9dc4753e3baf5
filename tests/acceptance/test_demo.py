"""The demo, as a person starts it: it tells the truth in its exit code, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest

from tests.fixtures.programs import eventually

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
SECONDS_MAX = 100
BROKEN_OURS = """
from webhook_inbox.demo.story import main
raise SystemExit(main(check=True, as_json=True, ours="tests.acceptance.demo_apps.record_first:app"))
"""


class Demo:
    """One run of the demo, whose temporary files are all in *folder* and whose processes all bear its name."""

    def __init__(self, folder: Path, command: Sequence[str], *, terminal: int | None = None) -> None:
        self.folder = folder
        colours = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "TERM"}
        environment = {name: value for name, value in os.environ.items() if name not in colours}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=subprocess.PIPE if terminal is None else terminal,
            text=True,
            cwd=ROOT,
            env={
                **environment,
                "TMPDIR": str(folder),
                "PYTHONPATH": PYTHONPATH,
                "PGHOST": "nowhere.invalid",
                "TERM": "xterm",
            },
            start_new_session=True,
        )

    def finish(self) -> tuple[int, str, str]:
        """Its exit code, data and talk."""
        data, talk = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, data, talk

    def read_until(self, text: str) -> None:
        """Read its talk until a line holds *text*."""
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if text in line:
                return
        pytest.fail(f"it ended before it said {text!r}:\n{''.join(said)}")

    def live(self) -> list[str]:
        """The command lines of its live processes, the server's apart: those run under another account."""
        folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
        return [command for folder in folders for command in self._mine(folder)]

    def _mine(self, folder: Path) -> list[str]:
        try:
            environment, command = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            return []
        mine = f"TMPDIR={self.folder}\0".encode() in environment or str(self.folder).encode() in command
        return [command.replace(b"\0", b" ").decode()] if mine and command else []

    def assert_nothing_left(self) -> None:
        """No process and no file of it remains."""
        eventually(lambda: self.live() == [], what="no process is left", seconds=20)
        eventually(lambda: list(self.folder.iterdir()) == [], what="no file is left", seconds=20)


@pytest.fixture
def demos(open_folder: Path) -> Iterator[list[Demo]]:
    """Holds the runs of this test, which end with it."""
    started: list[Demo] = []
    yield started
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()
        demo.process.communicate(timeout=SECONDS_MAX)


def start(demos: list[Demo], folder: Path, *command: str) -> Demo:
    """Start the demo."""
    demos.append(Demo(folder, command))
    return demos[-1]


def by_receiver(told: Any) -> dict[str, Any]:
    """The table, by receiver."""
    return {row["receiver"]: row for row in told["receivers"]}


def test_check_exits_0_and_its_table_shows_who_lost_and_doubled(demos: list[Demo], open_folder: Path) -> None:
    """P-ONCE, P-DUP, P-ACK: ours 0 lost, 0 doubled; mark first lost; mark after doubled; any error lost."""
    demo = start(demos, open_folder, "-m", "webhook_inbox", "demo", "--check")
    code, data, talk = demo.finish()
    assert code == 0, talk
    rows = {line[:12].strip(): line[12:].split() for line in data.splitlines() if line.strip()}
    #                               events  made  booked  lost  doubled  missing   too much
    assert rows["ours"] == ["13", "7", "7", "0", "0", "0.00", "0.00"]
    assert rows["mark first"] == ["13", "7", "6", "2", "1", "348.00", "39.00"]
    assert rows["mark after"] == ["13", "7", "16", "0", "3", "0.00", "441.00"]
    assert rows["any error"] == ["13", "7", "7", "1", "1", "79.00", "39.00"]
    assert rows["ours queued"] == ["7", "2", "2", "0", "0", "0.00", "0.00"]
    queued = [
        line.split(maxsplit=2)[2] for line in talk.splitlines() if line.startswith("  ours queued  200")
    ]
    assert [re.split(r"\s{2,}", line) for line in queued] == [
        ["200 queued, then 200 duplicate", "booked once"],
        ["200 queued, then 200 duplicate (dead)", "for review"],
        ["200 queued (5 times)", "booked once"],
    ]
    assert "\x1b" not in data + talk
    assert max(map(len, (data + talk).splitlines())) <= 80
    demo.assert_nothing_left()


def test_ours_broken_on_purpose_exits_1(demos: list[Demo], open_folder: Path) -> None:
    """With the record committed first ours loses what it was killed over, and the demo says so."""
    demo = start(demos, open_folder, "-c", BROKEN_OURS)
    code, data, talk = demo.finish()
    assert code == 1, talk
    told = json.loads(data)
    assert talk == ""
    assert told["ok"] is False
    ours = by_receiver(told)["ours"]
    assert ours["lost"] == 2
    assert by_receiver(told)["mark first"]["lost"] == 2
    fates = {chapter["title"]: chapter["receivers"][0] for chapter in told["chapters"]}
    assert fates["Killed before the commit"]["fate"] == "lost"
    assert fates["Killed before the commit"]["answers"] == "no answer, then 200 duplicate (waiting)"
    assert fates["Killed before the commit"]["as_expected"] is False
    demo.assert_nothing_left()


@pytest.mark.parametrize(("moment", "children"), [("2. 8 copies at once", 5), ("10. A payment that", 6)])
def test_killed_demo_leaves_nothing(demos: list[Demo], open_folder: Path, moment: str, children: int) -> None:
    """After a SIGKILL in the middle every receiver ends by itself, its worker and PostgreSQL too, with its files."""
    demo = start(demos, open_folder, "-m", "webhook_inbox", "demo")
    demo.read_until(moment)
    assert len([command for command in demo.live() if "webhook_inbox.demo.child" in command]) == children
    demo.process.kill()
    demo.assert_nothing_left()


@pytest.mark.parametrize("moment", ["2. 8 copies at once", "6. The database dies", "9. The worker is killed"])
def test_interrupted_demo_leaves_nothing(demos: list[Demo], open_folder: Path, moment: str) -> None:
    """Ctrl-C ends it with 130, no traceback, no process and no file; whatever is broken at that moment."""
    demo = start(demos, open_folder, "-m", "webhook_inbox", "demo")
    demo.read_until(moment)
    demo.process.send_signal(signal.SIGINT)
    code, _, talk = demo.finish()
    assert (code, "Traceback" in talk) == (130, False), talk
    demo.assert_nothing_left()


def test_on_a_terminal_it_stays_for_looking_and_sending(demos: list[Demo], open_folder: Path) -> None:
    """Where stdout is a terminal it stays up: what it prints works as printed, and Ctrl-C is its good end."""
    screen, terminal = pty.openpty()
    demo = Demo(open_folder, ["-m", "webhook_inbox", "demo"], terminal=terminal)
    demos.append(demo)
    os.close(terminal)
    with os.fdopen(screen, "rb", buffering=0) as reading:
        said = _read_screen(reading, until="Ctrl-C ends it")
        assert "\x1b[32m" in said, "it is told in colours"
        plain = re.sub(r"\x1b\[[0-9;]*m", "", said).replace("\r\n", "\n")
        send = plain[plain.index("Send another payment:") :].split("\n\n")[1]
        sent = subprocess.run(
            ["sh", "-c", f"{send} --json"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert (sent.returncode, '"processed"' in sent.stdout) == (0, True), sent.stdout + sent.stderr
        (dsn,) = re.findall(r"'(postgresql://\S+)'", plain)
        with psycopg.connect(dsn) as conn:
            (row,) = conn.execute("SELECT count(*), max(amount) FROM ours.ledger_entries").fetchall()
        assert row == (8, 19900), "seven of the story, one just sent"
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(SECONDS_MAX) == 0
    demo.assert_nothing_left()


def _read_screen(reading: IO[bytes], *, until: str) -> str:
    """What is on the terminal when *until* has come."""
    said = b""
    while until.encode() not in said:
        ready, _, _ = select.select([reading], [], [], SECONDS_MAX)
        assert ready, f"it fell silent after:\n{said.decode()}"
        said += reading.read(65536)
    return said.decode()
