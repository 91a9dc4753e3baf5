"""Open the sockets that ``serve`` listens on."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from webhook_inbox.errors import ConfigurationError

# Connections wait here while the loop is busy. Those still here when the server stops are reset: no more than needed.
BACKLOG = 1_024


def bind(host: str, port: int) -> socket.socket:
    """
    Listen on *host* and *port*; port 0 takes any that is free.

    Raises:
        ConfigurationError: The address is taken, not ours, or none.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        why = (getattr(error, "strerror", None) or "no such address").partition(" (while")[0]
        raise ConfigurationError(f"cannot listen on {host}:{port}: {why}") from error


def bind_first_free(host: str, ports: Iterable[int]) -> socket.socket:
    """
    Listen on the first of *ports* that is free.

    Raises:
        ConfigurationError: None is.
    """
    refusal = ConfigurationError(f"there is no port to listen on at {host}")
    for port in ports:
        try:
            return bind(host, port)
        except ConfigurationError as error:
            refusal = error
    raise refusal


def url_of(listener: socket.socket) -> str:
    """Give the address that *listener* really has, as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
