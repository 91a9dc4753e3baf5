"""
Start receivers in milliseconds: a program that has imported everything forks one whenever it is asked to.

Each lane is a listening socket that outlives its servers, as with socket activation: who connects between a death and
the next start waits in the backlog. The program speaks JSON, one object a line:

    stdin    {"do": "start", "lane": 0, "setup": {...}}   {"do": "kill", "lane": 0}   {"do": "stop", "lane": 0}
    stdout   {"started": PID, "lane": 0}                  {"died": PID, "lane": 0, "signal": 9, "status": 0}

It ends with its stdin, and its servers with it. Run as ``python -m tests.faults.nursery FD...``, a socket a lane.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
from typing import Any, NoReturn

import psycopg_pool  # noqa: F401 - imported here once, not in each server
import uvicorn

from tests.faults.app import Setup, make_app

_PR_SET_PDEATHSIG = 1


class Nursery:
    """Fork servers onto the lanes and say when one died."""

    def __init__(self, lanes: list[socket.socket]) -> None:
        self._lanes = lanes
        self._alive: dict[int, int] = {}
        self._prctl = ctypes.CDLL(None).prctl

    def serve(self) -> None:
        """Do as stdin says, until it ends."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        orders = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(0, selectors.EVENT_READ)
            waiting.register(woken, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select():
                    if key.fileobj == woken:
                        os.read(woken, 4096)
                        self._bury()
                        continue
                    # No buffered reader: it would keep a second line that select() knows nothing of.
                    if not (given := os.read(0, 65_536)):
                        return
                    *lines, orders = (orders + given).split(b"\n")
                    for line in lines:
                        self._do(json.loads(line))

    def _do(self, order: dict[str, Any]) -> None:
        lane = order["lane"]
        match order["do"]:
            case "start":
                pid = os.fork()
                if pid == 0:
                    self._be_server(self._lanes[lane], order["setup"])
                self._alive[pid] = lane
                say(started=pid, lane=lane)
            case "kill" | "stop":
                by = signal.SIGKILL if order["do"] == "kill" else signal.SIGTERM
                for pid, of in self._alive.items():
                    if of == lane:
                        os.kill(pid, by)
            case unknown:
                raise ValueError(f"no such order: {unknown}")

    def _bury(self) -> None:
        for pid, lane in list(self._alive.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._alive[pid]
                ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                say(died=pid, lane=lane, signal=ended_by, status=status >> 8)

    def serve_on(self, lane: socket.socket, setup: dict[str, Any]) -> None:
        """Be the receiver of *setup* until told to end; another kind of nursery has another kind of child."""
        uvicorn.Server(configured(Setup(**setup))).run(sockets=[lane])

    def _be_server(self, lane: socket.socket, setup: dict[str, Any]) -> NoReturn:
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        logging.basicConfig(level=logging.INFO, format=f"{os.getpid()} %(levelname)s %(message)s")
        code = 1
        try:
            self.serve_on(lane, setup)
            code = 0
        finally:
            os._exit(code)


def configured(setup: Setup) -> uvicorn.Config:
    """Give uvicorn's configuration, loaded: what it imports, it has imported."""
    config = uvicorn.Config(make_app(setup), log_config=None, access_log=False, lifespan="on", ws="none")
    config.load()
    config.get_loop_factory()
    return config


def say(**what: object) -> None:
    """Tell the test, at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve on the sockets whose numbers are given."""
    lanes = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    configured(Setup("postgresql:///nowhere", os.devnull))
    gc.collect()
    gc.freeze()
    say(ready=os.getpid())
    Nursery(lanes).serve()


if __name__ == "__main__":
    main()
