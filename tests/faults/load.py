"""Deliver from several threads at once, to whichever receivers there are at the moment, as a provider does."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.faults.ledger import Answer, Ledger
from tests.faults.sender import Address, Letter, Sender

SENDERS = 8


@dataclass(frozen=True, slots=True)
class BalancedSender(Sender):
    """
    Send each attempt to one of several receivers, as behind a load balancer that does not know who is up.

    Attributes:
        addresses: May change at any time; ``address`` is not looked at.
    """

    addresses: list[Address] = field(default_factory=list)

    def attempt(self, letter: Letter, **headers: str) -> Answer:
        """Send *letter* once."""
        address = random.choice(self.addresses)
        return Sender(address, self.ledger, self.answer_seconds_max).attempt(letter, **headers)


class Load:
    """
    Deliver letters, each until it is acknowledged, from now on until they are through or ``stop()``.

    Args:
        addresses: Of the receivers; may change while it runs.
        attempts_max: For how many attempts, at least a twentieth of a second apart, a sender is patient.
        copies: How often each letter is delivered, once acknowledged.
    """

    def __init__(
        self,
        addresses: list[Address],
        letters: Iterable[Letter],
        ledger: Ledger,
        *,
        attempts_max: int,
        copies: int = 1,
    ) -> None:
        self._sender = BalancedSender(addresses[0], ledger, attempts_max=attempts_max, addresses=addresses)
        self._letters = iter(letters)
        self._copies = copies
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(SENDERS)
        self._senders = [self._pool.submit(self._send) for _ in range(SENDERS)]

    def _send(self) -> None:
        while not self._stopped.is_set():
            with self._turn:
                letter = next(self._letters, None)
            if letter is None:
                return
            for _ in range(self._copies):
                self._sender.deliver(letter)

    def stop(self) -> None:
        """Begin no further letter."""
        self._stopped.set()

    def finish(self, seconds: float) -> None:
        """Wait until every letter that was begun is acknowledged; whatever went wrong with one is raised."""
        for sender in self._senders:
            sender.result(seconds)
        self._pool.shutdown()
