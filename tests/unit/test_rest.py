"""A look that was worth it is followed by another one soon; each that finds nothing doubles the pause."""

from __future__ import annotations

import asyncio

import pytest

from webhook_inbox.runtime.rest import Rest


def test_pauses_double_until_nothing_happens_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 20 ms to the poll; what was found begins it again, and a longer wait may be asked for."""
    waited: list[float] = []
    timeout = asyncio.timeout

    def at_once(seconds: float) -> asyncio.Timeout:
        waited.append(seconds)
        return timeout(0)

    async def story() -> None:
        rest = Rest(0.1)
        for _ in range(5):
            await rest.wait()
        rest.found()
        await rest.wait()
        await rest.wait(30.0)

    monkeypatch.setattr(asyncio, "timeout", at_once)
    asyncio.run(story())
    assert waited == [0.02, 0.04, 0.08, 0.1, 0.1, 0.02, 30.0]


def test_who_is_woken_looks_at_once_and_soon_again() -> None:
    """A hint that came before the wait counts, too; it is used up by one wait."""

    async def story() -> None:
        rest = Rest(3600.0)
        for _ in range(20):
            rest.wake()
            await asyncio.wait_for(rest.wait(3600.0), 5)
        await asyncio.wait_for(rest.wait(), 5)

    asyncio.run(story())
