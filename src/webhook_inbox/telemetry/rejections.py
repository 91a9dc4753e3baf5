"""
Tell that deliveries are refused, where an app keeps no log below WARNING: a wrong secret must not stay unseen.

Whoever can reach the endpoint can have a delivery refused, so a line comes by the clock and not by the request.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from webhook_inbox.telemetry.log_event import LogEvent

EVERY_SECONDS = 60.0

DELIVERIES_REJECTED = LogEvent(
    name="deliveries_rejected",
    level=logging.WARNING,
    text=(
        "endpoint %(endpoint)s refuses deliveries: %(reason)s (%(rejections)s since it was last told); "
        "is the secret the provider's?"
    ),
    meaning=(
        "What ``delivery_rejected`` tells of each, once a minute at most for an endpoint and a reason. Nothing was "
        "stored. One now and then is a stranger's; all of a provider's are a wrong secret, or a proxy that changes "
        "bodies."
    ),
)

REJECTION_EVENTS = (DELIVERIES_REJECTED,)


class Rejections:
    """
    Count refused deliveries by endpoint and reason, and tell of each pair at most once in ``EVERY_SECONDS``.

    Args:
        clock: Gives seconds that never go back.

    Concurrency: Any thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._untold: Counter[tuple[str, str]] = Counter()
        self._silent_until: dict[tuple[str, str], float] = {}

    def tell(self, endpoint: str, reason: str) -> None:
        """Count one; *reason* is a receipt's code, never text that a sender chose."""
        pair, now = (endpoint, reason), self._clock()
        with self._lock:
            self._untold[pair] += 1
            if now < self._silent_until.get(pair, now):
                return
            self._silent_until[pair] = now + EVERY_SECONDS
            count = self._untold.pop(pair)
        DELIVERIES_REJECTED.log(endpoint, reason, count)
