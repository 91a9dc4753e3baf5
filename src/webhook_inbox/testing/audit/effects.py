"""Count the effects of events in the receiver's own database, which is only read."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.sample import AuditEvent

_POLL_SECONDS = 0.05


class Effects:
    """
    Count by *query* in *database*; the connection is made anew where it was lost.

    Args:
        database: A DSN of PostgreSQL.
        query: Gives one whole number; its parameters are an event's names.
    """

    def __init__(self, database: str, query: str) -> None:
        self._database = database
        self._query = query
        self._conn: psycopg.Connection[Any] | None = None

    def count(self, event: AuditEvent) -> int:
        """
        Give how many effects *event* has.

        Raises:
            ConfigurationError: The query cannot be run, or gives no number.
            psycopg.OperationalError: The database is away.
        """
        try:
            row = self._connected().execute(self._query.encode(), event.names).fetchone()
        except psycopg.OperationalError:
            self.close()
            raise
        except psycopg.Error as error:
            known = ", ".join(f"%({name})s" for name in event.names)
            said = error.diag.message_primary or f"there are {known}; any other % is written %%"
            raise ConfigurationError(f"--effects-sql: {said}") from None
        if (
            row is None or not isinstance(row[0], int) or isinstance(row[0], bool)
        ):  # EXISTS hides a second effect
            raise ConfigurationError("--effects-sql gives no whole number; expected SELECT count(*) ...")
        return row[0]

    def settled(self, event: AuditEvent, expected: int, seconds_max: float) -> int | None:
        """Wait until *event* has *expected* effects or more, and give how many; None where the database stays away."""
        ends_at = time.monotonic() + seconds_max
        found: int | None = None
        while True:
            try:
                found = self.count(event)
            except psycopg.OperationalError:
                found = None
            if (found is not None and found >= expected) or time.monotonic() >= ends_at:
                return found
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Give the connection up."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._conn is None:
            # A transaction each: what the receiver commits meanwhile is seen, and its tables can be altered.
            options: dict[str, Any] = {"autocommit": True, "connect_timeout": 5}
            try:
                self._conn = psycopg.connect(self._database, **options)
            except psycopg.ProgrammingError:
                raise ConfigurationError("--database is no DSN of PostgreSQL") from None
            self._conn.execute("SELECT set_config('default_transaction_read_only', 'on', false)")
            self._conn.execute("SELECT set_config('statement_timeout', '5000', false)")
        return self._conn
