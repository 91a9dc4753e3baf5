"""Run a loop that works beside the deliveries, a worker's or a relay's, on connections of its own."""

from __future__ import annotations

import asyncio
from typing import Protocol

from webhook_inbox.model.failure import shown
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.wake import Listener
from webhook_inbox.telemetry.log_event import LogEvent


class Loop(Protocol):
    """Work until told to stop."""

    def wake(self) -> None:
        """Look for something to do now; from any thread."""
        ...

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> None:
        """Work until *stop* is set; with *drain*, also end when nothing is due."""
        ...


async def run_loop(
    loop: Loop,
    stop: asyncio.Event,
    *,
    drain: bool,
    listener: Listener,
    flows: AsyncFlows,
    drivers: Drivers,
    name: str,
    ended: LogEvent,
) -> None:
    """
    Run *loop* to its end, woken by *listener*; then close *flows* and *drivers*, which are its own.

    Args:
        name: The process's, for the log.
        ended: Told where it ends by an error, which is raised again.
    """
    listening = asyncio.create_task(listener.run())
    try:
        await loop.run(stop, drain=drain)
    except Exception as error:
        ended.log(name, shown(error))
        raise
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        flows.close()
        if drivers.loops is not None:
            await drivers.loops.close()
        if drivers.threads is not None:
            drivers.threads.close()
