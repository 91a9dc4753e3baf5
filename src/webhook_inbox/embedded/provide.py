"""Give a DSN to whoever needs a database: the one that was configured, else an embedded server's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from webhook_inbox.embedded.binaries import Choice
from webhook_inbox.embedded.server import EmbeddedPostgres


@contextmanager
def provide_postgres(
    dsn: str | None = None,
    directory: str | Path | None = None,
    *,
    binaries: Choice | str | None = None,
    durable: bool = True,
) -> Iterator[str]:
    """
    Yield *dsn* as it is where one is given, else that of an embedded server that lives as long as the block.

    Raises:
        EmbeddedPostgresError: No DSN was given and no server could be started.
    """
    if dsn:
        yield dsn
        return
    with EmbeddedPostgres(directory, binaries=binaries, durable=durable) as server:
        yield server.dsn
