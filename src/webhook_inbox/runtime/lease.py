"""Hold a worker's or relay's lease: register it when there is none to trust, and let the heartbeat keep it alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from webhook_inbox.model.claim import WorkerId
from webhook_inbox.protocol.lease import register
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.sql.statements import Statements

T = TypeVar("T")


class Transact(Protocol):
    """Run a plan."""

    async def __call__(self, plan: Callable[[], Plan[T]], /) -> T:
        """Run a fresh plan to its end."""
        ...


class Lease:
    """
    Hold one incarnation at a time, for all that claims under it.

    Args:
        heartbeat: Renews it, on a thread and a connection of its own.
        transact: Runs a plan.
        sql: The statements, rendered for the inbox's schema.
    """

    def __init__(self, heartbeat: Heartbeat, transact: Transact, sql: Statements) -> None:
        self._heartbeat = heartbeat
        self._transact = transact
        self._sql = sql
        self._registering = asyncio.Lock()

    @property
    def name(self) -> str:
        """Give the process's name."""
        return self._heartbeat.name

    @property
    def seconds(self) -> float:
        """Give how long a lease lasts without renewal."""
        return self._heartbeat.seconds

    @property
    def held(self) -> WorkerId | None:
        """Give whose lease can be trusted right now."""
        return self._heartbeat.held

    async def hold(self) -> WorkerId:
        """
        Hold a lease, a new one where there is none to trust: what was claimed under the old one is no longer ours.

        Raises:
            StoreError: The database did not give one.
        """
        async with self._registering:
            held = self._heartbeat.held
            if held is not None:
                return held
            former, began_at = self._heartbeat.former, time.monotonic()
            worker_id = await self._transact(
                lambda: register(self.name, self.seconds, self._sql, instead_of=former)
            )
            return self._heartbeat.began(worker_id, began_at)

    def distrust(self, worker_id: WorkerId) -> None:
        """Hold *worker_id* no longer: nobody knows all that it has claimed."""
        self._heartbeat.distrust(worker_id)

    async def give_up(self) -> None:
        """End it at once: what it may still hold is nobody's crash."""
        await asyncio.to_thread(self._heartbeat.stop, forget=True)
