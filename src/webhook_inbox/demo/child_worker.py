"""
Run ``webhook-inbox worker`` in a process that ends when its parent does.

    python -m webhook_inbox.demo.child_worker MODULE:ATTRIBUTE

Its standard input is a pipe that the parent holds open, as in ``child``.
"""

from __future__ import annotations

import runpy
import sys
import threading

from webhook_inbox.demo.child import end_with_parent


def main() -> None:
    """Work for the Inbox named on the command line until the parent ends or kills us."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = ["webhook-inbox", "worker", sys.argv[1], "--log-level", "warning"]
    runpy.run_module("webhook_inbox", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
