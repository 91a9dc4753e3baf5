"""Do what others do to the database while a worker is at a certain point: take its event, lock a row, cut a session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import psycopg

from webhook_inbox.testing.points import Passing

#: Another worker takes the event over, and holds it.
ROB = """
WITH thief AS (
    INSERT INTO webhooks.workers (name, lease_ends_at)
    VALUES ('thief', clock_timestamp() + interval '1 hour') RETURNING id
)
UPDATE webhooks.inbox SET claims = claims + 1, attempts = attempts + 1, worker_id = thief.id
FROM thief WHERE event_id = '{event}'
"""
#: An operator limits the endpoint; to more than all walks together hold.
LIMIT = """
INSERT INTO webhooks.endpoints (name, paused_at, concurrency, rate_events, rate_seconds, spent_until, limited_at)
SELECT endpoint, NULL, 10000, 10000, 1, now() - interval '1 minute', now()
FROM webhooks.inbox WHERE event_id = '{event}'
ON CONFLICT DO NOTHING
"""
LOCK = "BEGIN; SELECT FROM webhooks.inbox WHERE event_id = '{event}' FOR UPDATE"
LET_GO = "COMMIT"
#: The server ends what is in a transaction, and waits until it has ended.
CUT = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'webhook-inbox' AND xact_start IS NOT NULL
"""


class Meanwhile:
    """
    Run each statement of *deeds* at its passing, on a session of its own; a probe.

    Args:
        deeds: Statements by passing, each run once.
    """

    def __init__(self, dsn: str, deeds: Mapping[str, str]) -> None:
        self._dsn = dsn
        self._deeds = dict(deeds)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._session: psycopg.Connection[Any] | None = None

    def __call__(self, point: str) -> None:
        """Do here what is to be done here."""
        if not self._deeds:
            return
        with self._lock:
            self._counts[point] += 1
            statement = self._deeds.pop(str(Passing(point, self._counts[point])), None)
            if statement is None:
                return
            if self._session is None:
                self._session = psycopg.connect(self._dsn, autocommit=True, application_name="meanwhile")
            self._session.execute(statement.encode())
