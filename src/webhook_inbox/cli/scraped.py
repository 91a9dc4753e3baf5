"""Serve the metrics of a process that serves nothing else, for Prometheus to scrape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="N",
        min=1,
        max=65535,
        show_envvar=False,
        show_default=False,
        help="Serve /metrics there, for your own machines; not at all where it is not given.",
    ),
]
MetricsHostOption = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        metavar="ADDRESS",
        show_envvar=False,
        help="Where your own machines reach --metrics-port.",
    ),
]


@contextmanager
def scraped(inbox: Inbox, host: str, port: int | None) -> Iterator[None]:
    """
    Serve the metrics of *inbox* for the block, on a thread; nothing where there is no port.

    Raises:
        ConfigurationError: The address cannot be had.
    """
    if port is None:
        yield
        return
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=inbox.metrics.registry)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or type(error).__name__}"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
