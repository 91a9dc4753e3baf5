"""
Send as fast as the receiver answers: closed loop, with wrk.

wrk 4.1 sends the next request on a connection when the last was answered, so a slow receiver is asked less: its
latencies are those of a full queue. ``open_loop`` asks at a rate of its own.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.requests import Requests

_SCRIPT = Path(__file__).with_name("post.lua")
_GRACE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """
    Hold what a load came to.

    Attributes:
        answers: Responses that were read to their end, whatever their status.
        seconds: From the first request until the clock ran out.
        refused: Answers other than 2xx and 3xx, among *answers*.
        broken: Connections that failed.
        wrapped: How often the file of requests was begun again: then ids repeat.
    """

    answers: int
    seconds: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    refused: int
    broken: int
    wrapped: int

    @property
    def per_second(self) -> float:
        """Give the answers per second."""
        return self.answers / self.seconds


def find_wrk() -> str:
    """Give wrk's path."""
    if (found := shutil.which("wrk")) is None:
        raise BenchmarkError(
            "the load comes from wrk, and it is not installed; on Debian: apt-get install wrk"
        )
    return found


def send(requests: Requests, port: int, *, connections: int, seconds: float) -> Answers:
    """
    Send *requests* to 127.0.0.1:*port* over *connections* for *seconds*, which wrk takes as whole ones.

    Up to *connections* requests are under way when the clock runs out: they may be recorded and are not counted.
    """
    whole = max(1, math.ceil(seconds))
    command = [
        find_wrk(), "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "10s", "-s", str(_SCRIPT),
        f"http://127.0.0.1:{port}/", "--", str(requests.file), str(requests.bytes_each),
    ]  # fmt: skip
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=whole + _GRACE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"wrk did not end within {whole + _GRACE_SECONDS:g} s") from error
    last = ran.stdout.strip().rpartition("\n")[2]
    if ran.returncode != 0 or not last.startswith("{"):
        raise BenchmarkError(f"wrk failed: {(ran.stderr or ran.stdout).strip()[-500:]}")
    return Answers(**json.loads(last))
