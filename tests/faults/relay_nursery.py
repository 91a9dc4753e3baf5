"""Fork relays from a program that has imported everything; see ``nursery``."""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

import webhook_inbox.destinations.addresses  # noqa: F401 - imported here once, not in each relay
from tests.faults import nursery
from tests.faults.relay_app import RelaySetup, make_relay_inbox, run


class RelayNursery(nursery.Nursery):
    """Fork relays."""

    def serve_on(self, lane: socket.socket, setup: dict[str, Any]) -> None:
        """Be a relay until nothing is due."""
        lane.close()
        run(RelaySetup(**{**setup, "kinds": tuple(setup["kinds"])}))


def main() -> None:
    """Fork onto the sockets whose numbers are given."""
    lanes = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    make_relay_inbox(RelaySetup("postgresql:///nowhere", os.devnull, room=os.devnull))
    gc.collect()
    gc.freeze()
    nursery.say(ready=os.getpid())
    RelayNursery(lanes).serve()


if __name__ == "__main__":
    main()
