"""Start a program, wait until it serves, know what it costs, and end it by its own process id, within seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.harness.errors import BenchmarkError

ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
_POLL_SECONDS = 0.02
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Program:
    """
    Hold a program that runs, in a process group of its own.

    Attributes:
        process: The one that was started; it may have children.
        output: What it and they wrote, both streams.
    """

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def said(self, bytes_max: int = 2000) -> str:
        """Give the end of what it wrote."""
        self.output.seek(0)
        return self.output.read()[-bytes_max:].decode(errors="replace")

    def check(self) -> None:
        """Raise where it ended by itself."""
        if (status := self.process.poll()) is not None:
            raise BenchmarkError(f"{self.process.args!r} ended with {status}: {self.said()}")

    def members(self) -> list[int]:
        """List the live processes of its group."""
        group = self.process.pid
        return [pid for pid in _all_processes() if _group_of(pid) == group]

    def cpu_seconds(self) -> float:
        """Give the processor time of its live processes, user and system."""
        return sum(map(cpu_seconds, self.members()))

    def memory_mb(self) -> float:
        """Give the most memory that each of its live processes ever held in RAM, summed, in MB."""
        return sum(map(_peak_mb, self.members()))

    def end(self) -> None:
        """Ask it to end, then make it."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS_MAX)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS_MAX)


@contextmanager
def program(command: Sequence[str], *, environment: Mapping[str, str], cwd: Path = ROOT) -> Iterator[Program]:
    """Run *command* while the block runs."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        running = Program(process, output)
        try:
            yield running
        finally:
            running.end()


def run(command: Sequence[str], *, environment: Mapping[str, str], seconds_max: float = 60.0) -> str:
    """Run *command* to its end and give what it printed; raise where it fails."""
    try:
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{' '.join(command)} did not end within {seconds_max:g} s") from error
    if ran.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)} failed: {(ran.stderr or ran.stdout).strip()[-2000:]}")
    return ran.stdout


def free_port() -> int:
    """Give a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_until_it_answers(running: Program, port: int) -> None:
    """Return when whatever listens on 127.0.0.1:*port* answers HTTP, in whatever way."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        running.check()
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1.0) as asking,
        ):
            asking.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if asking.recv(16).startswith(b"HTTP/1."):
                return
        time.sleep(_POLL_SECONDS)
    raise BenchmarkError(f"{running.process.args!r} did not answer on port {port}: {running.said()}")


def cpu_seconds(pid: int) -> float:
    """Give the processor time of one process and of the children it has waited for, user and system; see proc(5)."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    return 0.0


def children(pid: int) -> list[int]:
    """List the children of *pid*, those included that have ended and that it has not waited for yet."""
    return [each for each in _all_processes() if _parent_of(each) == pid]


def _parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0


def _all_processes() -> list[int]:
    return [int(each.name) for each in os.scandir("/proc") if each.name.isdigit()]


def _group_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return 0


def _peak_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
