"""Hold the nursery and its servers from the test's side: start, kill, wait for a death, read the witness."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tests.faults.app import Setup
from tests.faults.sender import Address, post
from webhook_inbox.testing.points import Passing

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Death:
    """Say how a server ended: by which signal, or 0 and the exit status."""

    pid: int
    signal: int
    status: int


class Server:
    """
    One lane of the nursery: at most one receiver lives on it at a time, always at the same address.

    Attributes:
        address: Host and port.
    """

    def __init__(self, nursery: Nursery, lane: int, address: Address) -> None:
        self._nursery = nursery
        self._lane = lane
        self._setup: Setup | None = None
        self.address = address
        self.pid: int | None = None
        self.heard: queue.Queue[dict[str, Any]] = queue.Queue()

    @property
    def witness(self) -> Path:
        """Where its receivers attest how they die."""
        assert self._setup is not None
        return Path(self._setup.witness)

    def start(self, setup: Setup | None = None) -> None:
        """Fork a receiver; requests sent from now on are answered by it."""
        self._setup = setup or self._setup
        assert self._setup is not None, "the first start of a lane needs a set-up"
        assert self.pid is None, f"receiver {self.pid} lives"
        self._nursery.tell(do="start", lane=self._lane, setup=asdict(self._setup))
        self.pid = int(self.heard.get(timeout=SECONDS_MAX)["started"])

    def death(self) -> Death:
        """Wait for the receiver to end, however it does."""
        told = self.heard.get(timeout=SECONDS_MAX)
        assert told["died"] == self.pid, told
        self.pid = None
        return Death(told["died"], told["signal"], told["status"])

    def kill(self) -> Death:
        """Kill the receiver by SIGKILL."""
        self._nursery.tell(do="kill", lane=self._lane)
        return self.death()

    def stop(self) -> Death:
        """Ask the receiver to end by SIGTERM."""
        self._nursery.tell(do="stop", lane=self._lane)
        return self.death()

    def close(self) -> None:
        """End what lives."""
        if self.pid is not None:
            self.kill()

    def witnessed(self, death: Death, passing: Passing) -> bool:
        """Whether *death* was by SIGKILL at *passing*, as the dying process itself attested; takes the witness away."""
        attested = self.witness.read_text() if self.witness.exists() else ""
        self.witness.unlink(missing_ok=True)
        return death.signal == signal.SIGKILL and attested == f"{death.pid} {passing}\n"

    def points(self) -> tuple[Passing, ...]:
        """The fault points that the receiver has passed since it was last asked; it must record them."""
        answer = post(self.address, "/points", b"", {}, seconds_max=SECONDS_MAX)
        return tuple(Passing.parse(text) for text in json.loads(answer.body))


class Nursery:
    """
    The program that forks receivers, and its lanes.

    Args:
        lanes: How many receivers may live at once.
        log: Where all of them write what they log.
        program: The module that forks; see ``nursery``.
    """

    def __init__(self, *, lanes: int, log: Path, program: str = "tests.faults.nursery") -> None:
        sockets = [socket.create_server(("127.0.0.1", 0), backlog=512) for _ in range(lanes)]
        self.log = log
        self.servers = [Server(self, lane, s.getsockname()) for lane, s in enumerate(sockets)]
        numbers = [s.fileno() for s in sockets]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", program, *map(str, numbers)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                pass_fds=numbers,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
                start_new_session=True,
            )
        for given in sockets:
            given.close()
        assert self._process.stdout is not None
        assert "ready" in json.loads(self._process.stdout.readline())
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listener.start()
        self._telling = threading.Lock()

    def tell(self, **order: object) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        with self._telling:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            told = json.loads(line)
            self.servers[told["lane"]].heard.put(told)

    def close(self) -> None:
        """End the nursery, and with it what lives in it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(SECONDS_MAX)
        self._process.stdout.close()
