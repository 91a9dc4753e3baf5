"""
Serve one receiver in a process of its own, which ends when its parent does.

    python -m webhook_inbox.demo.child MODULE:ATTRIBUTE

Prints its port on standard output when it serves. Its standard input is a pipe that the parent holds open: when that
ends, be it by the parent's SIGKILL, so does this process.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

import uvicorn

BACKLOG = 128


class AnnouncingServer(uvicorn.Server):
    """Serve, and say on which port once the application has started."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then print the port."""
        await super().startup(sockets)
        if self.started and sockets:
            print(sockets[0].getsockname()[1], flush=True)


def main() -> None:
    """Serve the application named on the command line until the parent ends or kills us."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    config = uvicorn.Config(sys.argv[1], ws="none", access_log=False, log_level="warning")
    AnnouncingServer(config).run(sockets=[listening])


def end_with_parent() -> None:
    """End this process when the parent's end of our standard input closes, however it came to that."""
    while os.read(
        0, 1
    ):  # not sys.stdin: its lock, held by this thread, would abort the interpreter's own end
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
