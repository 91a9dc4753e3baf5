"""
Decide what to ask for: how many events of each endpoint, and from which due time on.

*How many.* As many as there are places for, in transactions as large as they may be (``runtime/pace.py``); one
transaction's worth where nothing came the last time. What is fast is asked for before its places are free, so that
they need not wait for the claim.

*From when.* A claim walks its index from the oldest due event, past every entry that a settled event has left and that
no vacuum could remove yet: behind a transaction that has been open for an hour, these are all of that hour's. So while
there is a backlog each claim begins where the one before it ended, and what may have turned up behind it (a row that
was locked, a commit that came late) is looked for once in ``EVERYTHING_SECONDS``, and whenever nothing else is found.

*Alone.* What else is held when an event runs alone has to be given back. So where the last claim brought such an event,
the next asks for one event an endpoint; and after each that has run alone, all others have their turn first, however
many of these there are and however long they take (P-FLOW).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from webhook_inbox.model.claim import Claim
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.lease import Wanted
from webhook_inbox.runtime.pace import Pace
from webhook_inbox.runtime.places import Places
from webhook_inbox.runtime.rate import Rate

EVERYTHING_SECONDS = 1.0


class Appetite:
    """
    Hold what the claims so far have shown.

    Args:
        places: Where what is claimed will run.
        pace: How many events share a transaction.

    Attributes:
        asked_all: Whether the last claim asked every endpoint for everything that is due.
    """

    def __init__(self, places: Places, pace: Pace) -> None:
        self._places = places
        self._pace = pace
        self._hungry: set[str] = set()
        self._rates: dict[str, Rate] = {}
        self._since: dict[str, int] = {}
        self._everything_at: dict[str, float] = {}
        self._complete = False
        self._one_at_a_time = self._others_first = False
        self.asked_all = False

    def let_others(self) -> None:
        """Ask for none that runs alone the next time, since one has just done so."""
        self._others_first = True

    @property
    def seconds_until_next(self) -> float:
        """Give how long until a bounded rate lets one more event begin; 0: none holds any back."""
        waits = [rate.seconds_until_next for rate in self._rates.values()]
        return min([seconds for seconds in waits if seconds > 0], default=0.0)

    def wanted(self, endpoints: Sequence[EndpointPlan], held: Collection[str] = ()) -> list[Wanted]:
        """Say what to claim now; nothing of an endpoint that has no place free, or is one of *held*."""
        wanted = []
        for endpoint in endpoints:
            room = 0 if endpoint.name in held else self._room(endpoint, len(endpoints))
            limit = self._rate(endpoint).allowed(self._most(room * self._pace.events(endpoint)))
            if limit > 0:
                wanted.append(
                    Wanted(
                        endpoint=endpoint.name,
                        limit=limit,
                        hold_seconds=endpoint.hold_seconds,
                        due_since=self._due_since(endpoint),
                        solitary=not self._others_first,
                    )
                )
        self._complete = len(wanted) == len(endpoints)
        self.asked_all = self._complete and all(each.due_since is None and each.solitary for each in wanted)
        return wanted

    def everything(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Ask for the same once more, from the oldest on; nothing where that is what was asked for."""
        narrowed = [
            replace(each, due_since=None, solitary=True, limit=self._most(each.limit))
            for each in wanted
            if each.due_since is not None or not each.solitary
        ]
        self._looked([each.endpoint for each in narrowed])
        self.asked_all = self._complete
        return narrowed

    def took(self, endpoints: Sequence[EndpointPlan], claims: Sequence[Claim]) -> None:
        """Take note of what came."""
        self._hungry = {each.event.endpoint for each in claims}
        if not self._others_first:
            self._one_at_a_time = any(each.solitary for each in claims)
        self._others_first = False
        for endpoint in endpoints:
            due = [each.due_at for each in claims if each.event.endpoint == endpoint.name]
            self._rate(endpoint).spend(len(due))
            if due:
                self._since[endpoint.name] = max(due)

    def _most(self, events: int) -> int:
        return min(events, 1) if self._one_at_a_time and not self._others_first else events

    def _room(self, endpoint: EndpointPlan, among: int) -> int:
        if self._places.waits(endpoint):
            return 0
        # What waits for its place when an event runs alone would only be given back.
        ahead = self._pace.fast(endpoint) and not self._others_first
        room = self._places.share(endpoint, among) if ahead else self._places.free(endpoint, among)
        return room if endpoint.name in self._hungry else min(1, room)

    def _due_since(self, endpoint: EndpointPlan) -> int | None:
        # An event that waited for its turn at an order key lies behind those that were claimed meanwhile.
        if endpoint.order_by is None and time.monotonic() < self._everything_at.get(endpoint.name, 0.0):
            return self._since.get(endpoint.name)
        self._looked([endpoint.name])
        return None

    def _looked(self, names: Sequence[str]) -> None:
        until = time.monotonic() + EVERYTHING_SECONDS
        self._everything_at.update(dict.fromkeys(names, until))

    def _rate(self, endpoint: EndpointPlan) -> Rate:
        return self._rates.setdefault(endpoint.name, Rate(endpoint.settings.rate_per_second_max))
