"""Say how to reach a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from webhook_inbox.embedded.cluster import DATABASE, SUPERUSER


@dataclass(frozen=True, slots=True)
class Address:
    """
    Hold a server's address; kill and restart do not change it.

    Attributes:
        folder: Where its socket is.
        port: Part of the socket's name, and the port on 127.0.0.1 where it listens there too.
        password: For TCP; empty where it listens on the socket alone. Never printed (P-QUIET).
    """

    folder: Path
    port: int
    password: str = field(default="", repr=False)

    def socket_uri(self, database: str, user: str) -> str:
        """Give the URI of *database* over the socket, complete: no PGHOST, PGPORT or PGDATABASE fills a gap."""
        host = quote(str(self.folder), safe="")
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={host}&port={self.port}"

    def tcp_uri(self) -> str:
        """Give the URI over TCP, password included."""
        return f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}?sslmode=disable"
