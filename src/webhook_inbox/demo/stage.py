"""Hold what the chapters play with: the receivers' processes, the database, the sender, and what was answered."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Sequence

from webhook_inbox.demo.database import StoryDatabase, until
from webhook_inbox.demo.events import INVOICE_OPEN_SECONDS, Invoice, StripeEvent
from webhook_inbox.demo.receivers import Receiver
from webhook_inbox.demo.sender import Attempt, Pending, Sender
from webhook_inbox.demo.servers import ReceiverServer, ReceiverWorker, start_all


class Stage:
    """
    Deliver to all receivers side by side, strike all of them alike, and keep their answers.

    Args:
        worker: Runs the handlers of the only server's recorded events; None: they run in the request.
        later: What the second part of the story is played on; None: there is none.

    Attributes:
        began: When its setting began, in seconds of the monotonic clock.
        answers: Of the chapter being told: by receiver, rounds of attempts that were made at the same moment.
        invoices: Of the chapter being told.
    """

    def __init__(
        self,
        servers: Sequence[ReceiverServer],
        database: StoryDatabase,
        sender: Sender,
        *,
        began: float,
        worker: ReceiverWorker | None = None,
        later: Stage | None = None,
    ) -> None:
        self.servers = servers
        self.later = later
        self._worker = worker
        self.database = database
        self.sender = sender
        self.began = began
        self.answers: dict[str, list[list[Attempt]]] = defaultdict(list)
        self.invoices: list[Invoice] = []
        self._numbers = itertools.count(1)

    @property
    def receivers(self) -> list[Receiver]:
        """Give the receivers, ours first."""
        return [server.receiver for server in self.servers]

    def turn_page(self) -> None:
        """Forget the last chapter's answers and invoices; the sender remembers them."""
        self.answers.clear()
        self.invoices.clear()

    def invoice(self, amount: int, *, currency: str = "eur") -> Invoice:
        """Make a new invoice over *amount* cents, an hour old."""
        created = int(time.time()) - INVOICE_OPEN_SECONDS
        made = Invoice(name=f"{next(self._numbers):04}", amount=amount, created=created, currency=currency)
        self.invoices.append(made)
        return made

    def deliver(self, event: StripeEvent) -> None:
        """Deliver *event* to every receiver until it is accepted."""
        self.hear(self.sender.send(self.servers, event))
        self.redeliver(event)

    def hear(self, pending: Pending) -> None:
        """Wait for the answers to *pending*, or for their failing to come."""
        for name, attempts in pending.items():
            self.answers[name].append([attempt.result() for attempt in attempts])

    def redeliver(self, event: StripeEvent) -> None:
        """Deliver *event* again to the receivers that did not accept it when they heard it last."""
        refusing = [
            server
            for server in self.servers
            if not any(attempt.accepted for attempt in self.answers[server.receiver.name][-1])
        ]
        for name, attempts in self.sender.redeliver(refusing, event).items():
            self.answers[name].extend([attempt] for attempt in attempts)

    def await_met(self, pending: Pending) -> None:
        """Return when each of *pending* is answered, or waits: for a lock, or within its receiver for another copy."""

        def all_met() -> bool:
            waiting = self.database.waiting_for_locks()
            for receiver in self.receivers:
                attempts = pending[receiver.name]
                answered = sum(attempt.done() for attempt in attempts)
                met = answered + waiting.get(receiver.schema, 0)
                if met < (answered + 1 if receiver.waits_inside else len(attempts)):
                    return False
            return True

        until(all_met, "a copy went astray")

    def kill_receivers(self) -> None:
        """Kill every receiver's process with SIGKILL."""
        for server in self.servers:
            server.kill()

    def restart_receivers(self) -> None:
        """Start every receiver again, once PostgreSQL has seen that the dead ones are gone."""
        self.database.await_gone(self.receivers)
        start_all(self.servers)

    def start_worker(self) -> None:
        """Start the worker, or another one in place of the killed one."""
        self.worker.launch()

    def kill_worker(self) -> None:
        """Kill the worker's process with SIGKILL."""
        self.worker.kill()

    @property
    def worker(self) -> ReceiverWorker:
        """Give the worker of a stage that has one."""
        assert self._worker is not None  # noqa: S101 - such chapters are played on such a stage only
        return self._worker

    def await_settled(self, *events: StripeEvent) -> None:
        """Return when each of *events* is processed, or dead."""
        ids = {event.id for event in events}

        def settled() -> bool:
            states = self.database.states(self.receivers[0], ids)
            return states.keys() == ids and set(states.values()) <= {"processed", "dead"}

        until(settled, "an event was never worked off")

    def state(self, event: StripeEvent) -> str:
        """Give the state of *event*, which has been recorded."""
        return self.database.states(self.receivers[0], [event.id])[event.id]
