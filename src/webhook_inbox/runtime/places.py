"""
Share a worker's places among its endpoints (P-FLOW).

A place is a connection on which one transaction runs. An endpoint may fill all but one for each other endpoint,
so a backlog, however long, and a handler, however slow, leave the others a place. What was claimed and finds no
place waits here, under its lease, and nothing more is claimed for its endpoint until it has begun.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from webhook_inbox.model.claim import Claim
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.runtime.pace import Pace

# The worker's own transactions, beside those of its handlers.
_RESERVED_CONNECTIONS = 2
# What has been left so often in a row, for locks that others had, waits for them the next time.
_LEFT_MAX = 5


class Part(NamedTuple):
    """
    Hold what one transaction, or a row of them, is to run.

    Attributes:
        left: How often in a row something of it has been left for locks that others had.
    """

    claims: list[Claim]
    left: int = 0


class Places:
    """
    Hold who runs and who waits to run.

    Args:
        connections_max: Of the pool that the worker uses.
        pace: How many transactions of an endpoint run at once.
    """

    def __init__(self, connections_max: int, pace: Pace) -> None:
        self._pace = pace
        self._places = max(1, connections_max - _RESERVED_CONNECTIONS)
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[Part]] = {}
        self._turn = 0

    def share(self, endpoint: EndpointPlan, among: int) -> int:
        """Give how many places *endpoint*, one of *among*, may have at once."""
        return max(1, min(self._pace.places(endpoint), self._places - (among - 1)))

    def free(self, endpoint: EndpointPlan, among: int) -> int:
        """Give how many places *endpoint*, one of *among*, may take now."""
        share = self.share(endpoint, among)
        return max(0, min(share - self._taken[endpoint.name], self._places - self._taken.total()))

    def waits(self, endpoint: EndpointPlan) -> bool:
        """Say whether anything of *endpoint* waits for a place."""
        return bool(self._waiting.get(endpoint.name))

    def add(self, endpoint: EndpointPlan, parts: Sequence[list[Claim]]) -> None:
        """Let *parts*, each for one transaction or a row of them, wait for a place."""
        self._waiting.setdefault(endpoint.name, deque()).extend(map(Part, parts))

    def patient(self, endpoint: EndpointPlan, part: Part) -> bool:
        """Say whether *part* is to wait for locks that others have, and to leave nothing."""
        return part.left >= _LEFT_MAX or self._pace.contended(endpoint)

    def put_back(self, endpoint: EndpointPlan, claims: Sequence[Claim], left: int) -> None:
        """Let *claims*, which were begun and *left*, go first in what runs next; each part keeps to its most."""
        waiting = self._waiting.setdefault(endpoint.name, deque())
        most, first = endpoint.settings.batch_events_max, Part(list(claims), left)
        for position, part in enumerate(waiting):
            joined = [*first.claims, *part.claims]
            waiting[position] = Part(joined[:most], max(first.left, part.left))
            first = Part(joined[most:], part.left)
            if not first.claims:
                return
        waiting.append(first)

    def take(self, endpoints: Sequence[EndpointPlan]) -> tuple[EndpointPlan, Part] | None:
        """Give the next that may begin, its place taken; the endpoints take turns."""
        for offset in range(len(endpoints)):
            endpoint = endpoints[(self._turn + offset) % len(endpoints)]
            if self.waits(endpoint) and self.free(endpoint, len(endpoints)) > 0:
                self._turn = (self._turn + offset + 1) % len(endpoints)
                self.occupy(endpoint)
                return endpoint, self._waiting[endpoint.name].popleft()
        return None

    def occupy(self, endpoint: EndpointPlan) -> None:
        """Take a place."""
        self._taken[endpoint.name] += 1

    def leave(self, endpoint: EndpointPlan) -> None:
        """Give a place up."""
        self._taken[endpoint.name] -= 1

    def clear(self) -> list[Claim]:
        """Give all that wait, and let none of them begin."""
        waiting = [each for parts in self._waiting.values() for part in parts for each in part.claims]
        self._waiting.clear()
        return waiting

    @property
    def empty(self) -> bool:
        """Say whether nothing waits."""
        return not any(self._waiting.values())
