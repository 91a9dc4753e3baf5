"""Fork workers, and receivers of the workers' inbox, from a program that has imported everything; see ``nursery``."""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

from tests.faults import nursery
from tests.faults.worker_app import WorkerSetup, make_worker_inbox, run


class WorkerNursery(nursery.Nursery):
    """Fork what the set-up's role says."""

    def serve_on(self, lane: socket.socket, setup: dict[str, Any]) -> None:
        """Be a worker until it is done or told to end."""
        run(WorkerSetup(**{**setup, "endpoints": tuple(setup["endpoints"])}), lane)


def main() -> None:
    """Fork onto the sockets whose numbers are given."""
    lanes = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    make_worker_inbox(WorkerSetup("postgresql:///nowhere", os.devnull, room=os.devnull))
    gc.collect()
    gc.freeze()
    nursery.say(ready=os.getpid())
    WorkerNursery(lanes).serve()


if __name__ == "__main__":
    main()
