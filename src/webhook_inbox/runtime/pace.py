"""
Learn how long an endpoint's events take: it says how many share a transaction, and how many transactions run at once.

A transaction that is shared saves a commit and several round trips an event, and holds each event's locks until its
end. So events share one as long as it lasts ``SHARED_SECONDS``: many fast ones, one slow one. What is fast is bounded
by this process and not by what it waits for; more of it at once would only be in its own way, row locks included. What
is slow waits for something else, and as much of it runs at once as there are places for. What nobody knows yet is
shared out among all places.

Where events keep waiting for each other's locks, a batch that leaves what it would have to wait for leaves nearly all
of it: there each waits for its turn (*contended*), until that has been forgotten.
"""

from __future__ import annotations

from webhook_inbox.protocol.endpoint import EndpointPlan

SHARED_SECONDS = 0.05
FAST_SECONDS = 0.01
FAST_PLACES = 3
CONTENDED = 0.25
_MEMORY = 0.8


class Pace:
    """Hold the seconds that an event of each endpoint has taken of late; nothing is known of one that has not run."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._busy: dict[str, float] = {}

    def ran(self, endpoint: EndpointPlan, events: int, seconds: float, *, busy: int = 0) -> None:
        """Take note that a transaction with that many *events* took *seconds*, and left *busy* of them."""
        latest = seconds / max(1, events - busy)
        before = self._seconds.get(endpoint.name, latest)
        self._seconds[endpoint.name] = _MEMORY * before + (1 - _MEMORY) * latest
        share = self._busy.get(endpoint.name, 0.0)
        self._busy[endpoint.name] = _MEMORY * share + (1 - _MEMORY) * busy / events

    def contended(self, endpoint: EndpointPlan) -> bool:
        """Say whether many of its events have waited for each other's locks of late."""
        return self._busy.get(endpoint.name, 0.0) > CONTENDED

    def fast(self, endpoint: EndpointPlan) -> bool:
        """Say whether its events are fast."""
        return self._seconds.get(endpoint.name, FAST_SECONDS) < FAST_SECONDS

    def events(self, endpoint: EndpointPlan) -> int:
        """Give how many of its events may share a transaction."""
        seconds = self._seconds.get(endpoint.name, 0.0)
        return max(1, min(endpoint.settings.batch_events_max, int(SHARED_SECONDS / max(seconds, 1e-6))))

    def places(self, endpoint: EndpointPlan) -> int:
        """Give how many of its transactions may run at once."""
        most = endpoint.settings.concurrency_max
        return min(most, FAST_PLACES) if self.fast(endpoint) else most
