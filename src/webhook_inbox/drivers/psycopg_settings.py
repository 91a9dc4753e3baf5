"""Understand the DSNs people have, and open psycopg pools that notice a dead server."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from webhook_inbox.errors import ConfigurationError, StoreUnavailableError
from webhook_inbox.model.settings import Settings

# A connection that saw one of these is alive, but its server will not serve us again soon; so are its
# neighbours in the pool.
STALE_POOL_SQLSTATES = frozenset({"25006", "57P01", "57P02", "57P03", "57P05"})

WHICH_SERVER = "SELECT pg_backend_pid()"
_PREPARE_AFTER = 5

# What a pool's own threads may take to end; one that connects to a server that never answers is left behind.
CLOSE_SECONDS_MAX = 1.0

# What the user's DSN says wins. Text is exchanged as UTF-8 whatever the database's own encoding is; a peer that
# vanished without a word is noticed within seconds, not hours.
_DEFAULTS = {
    "application_name": "webhook-inbox",
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_PLAIN = re.compile(r"[\w.:,/ -]*")
_DIALECT = re.compile(r"^postgres(?:ql)?(?P<driver>\+\w+)?://")
_QUERY = re.compile(r"\w+=[^&]*(?:&\w+=[^&]*)*")


def libpq_dsn(given: str) -> str:
    """
    Give *given* in libpq's form: ``postgres://``, ``postgresql+asyncpg://`` and key=value strings are understood.

    Raises:
        ConfigurationError: No DSN of PostgreSQL; the text is not shown, it may hold a password (P-QUIET).
    """
    dsn = _without_dialect(given.strip())
    try:
        known = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise ConfigurationError(
            "the database is no DSN of PostgreSQL; expected postgresql://user:password@host/name"
        ) from None
    if not known:
        raise ConfigurationError("the database DSN is empty; set WEBHOOK_INBOX_DATABASE_URL or DATABASE_URL")
    return make_conninfo(dsn, **{key: value for key, value in _DEFAULTS.items() if key not in known})


def _without_dialect(given: str) -> str:
    """Leave out what a URL of SQLAlchemy's says to another driver than libpq; asyncpg's ``ssl`` is ``sslmode``."""
    dialect = _DIALECT.match(given)
    base, mark, query = _DIALECT.sub("postgresql://", given).partition("?")
    if dialect is None or dialect["driver"] is None or not _QUERY.fullmatch(query):
        return base + mark + query
    known = {each.keyword.decode() for each in Conninfo.get_defaults()}
    pairs = (option.split("=", 1) for option in query.split("&"))
    options = [("sslmode" if name == "ssl" else name, value) for name, value in pairs]
    return base + mark + "&".join(f"{name}={value}" for name, value in options if name in known)


def place(dsn: str) -> str:
    """
    Say where *dsn* leads: ``the database shop at db.example:5432``.

    A password with an unescaped ``@``, ``/`` or ``?`` makes other parts of a URL hold a piece of it. So nothing is
    said of a DSN with an ``@`` in the wrong place, and no part is said that does not look like one (P-QUIET).
    """
    parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    if any(
        "@" in value for key, value in parts.items() if key not in {"user", "password", "application_name"}
    ):
        return "the database (its DSN has an @ in an odd place: write it as %40 in a password)"
    host = parts.get("host") or parts.get("hostaddr") or ""
    port = parts.get("port", "")
    name = parts.get("dbname", "")
    named = f" {name}" if name and _PLAIN.fullmatch(name) else ""
    where = f" at {host}" if host and _PLAIN.fullmatch(host) else ""
    return f"the database{named}{where}{f':{port}' if where and port.isdigit() else ''}"


def connect_arguments(dsn: str, settings: Settings) -> dict[str, Any]:
    """Give the arguments of a pool for *dsn*."""
    return {
        "conninfo": libpq_dsn(dsn),
        "kwargs": {"prepare_threshold": None},
        "min_size": 0,
        "max_size": settings.connections_max,
        "timeout": settings.connection_wait_seconds,
        # An attempt that failed is forgotten soon, so that the first request after an outage connects at once.
        "reconnect_timeout": settings.connection_wait_seconds,
        "name": "webhook-inbox",
        "open": False,
    }


def prepares(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], server_pid: int) -> int | None:
    """
    Give after how many executions *conn* shall prepare a statement; None: never.

    Args:
        server_pid: What ``pg_backend_pid()`` says. A pooler tells its clients an id of its own, and may hand out
            another session for each transaction, which does not have what this one has prepared.
    """
    return _PREPARE_AFTER if conn.info.backend_pid == server_pid else None


def pool_exhausted(settings: Settings) -> StoreUnavailableError:
    """Say that no connection came free, or none could be made."""
    return StoreUnavailableError(
        f"no database connection within {settings.connection_wait_seconds}s: the server is away, or all "
        f"{settings.connections_max} are busy (settings connection_wait_seconds, connections_max)"
    )
