"""
Hear of new events sooner than the next look: LISTEN, as a hint and never more.

The listening session may die without a word, may sit behind a pooler that swallows notifications, or may be
switched off. So it proves itself: at the start and every so often it is notified from a second session, and where
that is not heard it says so once, and polling does the work alone until it is heard again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable

import psycopg

from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.sql.statements import Statements, listen
from webhook_inbox.telemetry import events

PROOF_SECONDS = 30.0
_HEARD_WITHIN_SECONDS = 5.0
_RETRY_SECONDS = 5.0


def channel_of(schema: str) -> str:
    """Give the channel's name; at most 63 bytes, whatever the schema is called."""
    return f"webhook_inbox_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"


class Listener:
    """
    Call *wake* for each notification, and prove that they arrive.

    Args:
        dsn: Where to listen; a session of its own. None: nowhere, and polling does the work alone.
        channel: See ``channel_of``.
        sql: The statements, rendered for the inbox's schema.
        wake: Called on the event loop.
    """

    def __init__(self, dsn: str | None, channel: str, sql: Statements, wake: Callable[[], None]) -> None:
        self._dsn = "" if dsn is None else libpq_dsn(dsn)
        self._notify = sql.notify
        self._channel = channel
        self._wake = wake
        self._deaf = False
        self.hears = False

    async def run(self) -> None:
        """Listen until cancelled; a session that is lost or deaf is replaced."""
        if not self._dsn:
            events.LISTENER_DEAF.log("no DSN to listen by")
            return
        while True:
            try:
                await self._listen()
            except (psycopg.Error, TimeoutError, OSError) as error:
                if not self._deaf:
                    events.LISTENER_DEAF.log(type(error).__name__)
                self._deaf = True
            self.hears = False
            await asyncio.sleep(_RETRY_SECONDS)

    async def _listen(self) -> None:
        async with asyncio.timeout(_HEARD_WITHIN_SECONDS):
            conn = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        try:
            await asyncio.wait_for(conn.execute(listen(self._channel)), _HEARD_WITHIN_SECONDS)
            while True:
                await self._prove(conn)
                self._wake()  # for what came before we listened, and for what the proof has swallowed
                async for _ in conn.notifies(timeout=PROOF_SECONDS):
                    self._wake()
        finally:
            with contextlib.suppress(psycopg.Error):
                await conn.close()

    async def _prove(self, conn: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        # From another session: a pooler may run our NOTIFY where our LISTEN happens to be, and hand us that one alone.
        async with asyncio.timeout(_HEARD_WITHIN_SECONDS):
            other = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
            try:
                await other.execute(self._notify.text, {"channel": self._channel})
            finally:
                await other.close()
        heard = [notice async for notice in conn.notifies(timeout=_HEARD_WITHIN_SECONDS, stop_after=1)]
        if not heard:
            raise TimeoutError
        if self._deaf:
            events.LISTENER_AGAIN.log()
        elif not self.hears:
            events.LISTENER.log()
        self.hears, self._deaf = True, False
