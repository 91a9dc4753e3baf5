"""
Send as Stripe sends: at least once, each attempt signed anew, until the receiver answers 2xx; and never after that.

What was sent and what was answered is kept here, outside PostgreSQL: the receivers' tables are later held against it.

Source: docs.stripe.com/webhooks, "Retry behavior" and "Verify webhook signatures manually".
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.events import UNKNOWN_CURRENCY, Invoice, StripeEvent
from webhook_inbox.demo.servers import ReceiverServer

ANSWER_SECONDS_MAX = 20.0
REDELIVERY_SECONDS_MAX = 30.0
PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
THREADS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """
    Record one attempt to deliver.

    Attributes:
        status: Of the answer; None where none came: refused, cut off, or too late.
        outcome: What the receiver says became of it, or empty.
        state: What it says became of the first copy, where this is a duplicate; or empty.
    """

    receiver: str
    event_id: str
    status: int | None
    outcome: str = ""
    state: str = ""

    @property
    def accepted(self) -> bool:
        """Say whether the sender is satisfied and will not send this event again."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 - RFC 9110, "Successful 2xx"

    def __str__(self) -> str:
        if self.status is None:
            return "no answer"
        said = f"{self.status} {self.outcome}".rstrip()
        return said if self.state in {"", "processed"} else f"{said} ({self.state})"


Pending: TypeAlias = Mapping[str, Sequence[Future[Attempt]]]


class Sender:
    """
    Deliver events to receivers and remember every attempt.

    Args:
        secret: The signing secret.

    Attributes:
        events: Every event sent, in order, each once.
        attempts: Every attempt, in the order of its end.
    """

    def __init__(self, secret: str) -> None:
        self.events: dict[str, StripeEvent] = {}
        self.attempts: list[Attempt] = []
        self._secret = secret
        self._closed = threading.Event()
        self._together = threading.Barrier(1)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="sender")

    def send(self, servers: Sequence[ReceiverServer], event: StripeEvent, *, copies: int = 1) -> Pending:
        """Deliver *copies* of *event* to each server, all in the same moment; give what will come of it."""
        self.events[event.id] = event
        self._together = together = threading.Barrier(len(servers) * copies)
        return {
            server.receiver.name: [
                self._threads.submit(self._deliver, server, event, together) for _ in range(copies)
            ]
            for server in servers
        }

    def redeliver(self, servers: Sequence[ReceiverServer], event: StripeEvent) -> Mapping[str, list[Attempt]]:
        """
        Deliver *event* again to each server until it is accepted; give the attempts it took.

        Stripe waits minutes to hours between attempts, the demo less than a second.

        Raises:
            StoryError: One still refuses after REDELIVERY_SECONDS_MAX.
        """
        under_way = {
            server.receiver.name: self._threads.submit(self._redeliver, server, event) for server in servers
        }
        return {name: attempts.result() for name, attempts in under_way.items()}

    def close(self) -> None:
        """End every delivery; the servers are gone by now, so that none waits for an answer."""
        self._closed.set()
        self._together.abort()
        self._threads.shutdown(cancel_futures=True)

    def bookings_due(self) -> dict[Invoice, int]:
        """
        Say how many payments the ledger should hold for each invoice.

        1 where it was paid, is not void, and is in a currency that books are kept in; else a person must look.
        """
        types: dict[Invoice, set[str]] = {}
        for event in self.events.values():
            types.setdefault(event.invoice, set()).add(event.type)
        return {
            invoice: int(
                "invoice.paid" in told
                and "invoice.voided" not in told
                and invoice.currency != UNKNOWN_CURRENCY
            )
            for invoice, told in types.items()
        }

    def _redeliver(self, server: ReceiverServer, event: StripeEvent) -> list[Attempt]:
        made = [self._deliver(server, event)]
        deadline = time.monotonic() + REDELIVERY_SECONDS_MAX
        pause = PAUSE_SECONDS_MIN
        while not made[-1].accepted and not self._closed.wait(pause):
            if time.monotonic() > deadline:
                raise StoryError(
                    f"{server.receiver.name!r} keeps refusing {event.type}: {made[-1]}\n{server.log_tail()}"
                )
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
            made.append(self._deliver(server, event))
        return made

    def _deliver(
        self, server: ReceiverServer, event: StripeEvent, together: threading.Barrier | None = None
    ) -> Attempt:
        headers = {
            "content-type": "application/json; charset=utf-8",
            "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
            "stripe-signature": sign(event.body, self._secret, timestamp=int(time.time())),
        }
        if together is not None:
            together.wait(ANSWER_SECONDS_MAX)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request("POST", "/stripe", event.body, headers)
            answer = connection.getresponse()
            status, said = answer.status, _said(answer.read())
        except (OSError, http.client.HTTPException):
            status, said = None, {}
        finally:
            connection.close()
        attempt = Attempt(
            receiver=server.receiver.name,
            event_id=event.id,
            status=status,
            outcome=str(said.get("outcome", "")),
            state=str(said.get("state", "")) if said.get("outcome") == "duplicate" else "",
        )
        self.attempts.append(attempt)
        return attempt


def sign(body: bytes, secret: str, *, timestamp: int) -> str:
    """Give the ``Stripe-Signature`` of *body*; written from Stripe's text, sharing nothing with our verifier."""
    signature = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={signature}"


def _said(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
