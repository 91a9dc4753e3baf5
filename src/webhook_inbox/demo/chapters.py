"""
Play the story, chapter by chapter: the same events and the same blows for every receiver.

Each chapter also says how each receiver fares in it. Where one fares otherwise the story fails: it would show an
accident, or a promise is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.events import UNKNOWN_CURRENCY, EventType, write_event
from webhook_inbox.demo.stage import Stage
from webhook_inbox.demo.tally import Fate

COPIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """
    Describe one chapter.

    Attributes:
        title: What happens.
        scene: What is sent, and what is done to every receiver meanwhile; a line each.
        play: Does it.
        fates: What becomes of the payment at the receivers that fare otherwise than ours.
        ours: What becomes of it at ours.
    """

    title: str
    scene: tuple[str, ...]
    play: Callable[[Stage], None]
    fates: Mapping[str, Fate] = field(default_factory=dict)
    ours: Fate = "booked once"

    def fate(self, receiver: str) -> Fate:
        """Give what is to become of the payment at *receiver*."""
        return self.fates.get(receiver, self.ours)


def ordinary_payment(stage: Stage) -> None:
    """Tell of an invoice, of its payment, and of the payment once more."""
    invoice = stage.invoice(4900)
    stage.deliver(write_event("invoice.created", invoice))
    stage.deliver(write_event("invoice.paid", invoice))
    stage.deliver(write_event("invoice.paid", invoice))


def copies_at_once(stage: Stage) -> None:
    """Hold the ledger until every copy has come as far as it can; then let all of them go on."""
    paid = write_event("invoice.paid", stage.invoice(2900))
    ledgers = [receiver.ledger_table for receiver in stage.receivers]
    with stage.database.locked(ledgers, mode="EXCLUSIVE"):
        pending = stage.sender.send(stage.servers, paid, copies=COPIES)
        stage.await_met(pending)
    stage.hear(pending)
    stage.redeliver(paid)


def paid_before_created(stage: Stage) -> None:
    """Tell of the payment before the invoice."""
    invoice = stage.invoice(9900)
    stage.deliver(write_event("invoice.paid", invoice))
    stage.deliver(write_event("invoice.created", invoice))


def killed_before_commit(stage: Stage) -> None:
    """Kill each receiver while it stands in front of the ledger with the payment in its hand."""
    paid = write_event("invoice.paid", stage.invoice(14900))
    ledgers = [receiver.ledger_table for receiver in stage.receivers]
    with stage.database.locked(ledgers, mode="EXCLUSIVE") as lock:
        pending = stage.sender.send(stage.servers, paid)
        stage.database.await_blocked(stage.receivers, held_by=lock)
        stage.kill_receivers()
    stage.hear(pending)
    stage.restart_receivers()
    stage.redeliver(paid)


def killed_after_commit(stage: Stage) -> None:
    """Kill each receiver when its first commit is on disk and it does not know yet."""
    paid = write_event("invoice.paid", stage.invoice(19900))
    with stage.database.commits_held():
        pending = stage.sender.send(stage.servers, paid)
        stage.database.await_held(receiver.schema for receiver in stage.receivers)
        stage.kill_receivers()
    stage.hear(pending)
    stage.restart_receivers()
    stage.redeliver(paid)


def database_killed(stage: Stage) -> None:
    """Kill PostgreSQL while each receiver is looking into its table of events."""
    paid = write_event("invoice.paid", stage.invoice(7900))
    tables = [receiver.event_table for receiver in stage.receivers]
    with stage.database.locked(tables, mode="ACCESS EXCLUSIVE") as lock:
        pending = stage.sender.send(stage.servers, paid)
        stage.database.await_blocked(stage.receivers, held_by=lock)
        stage.database.crash()
    stage.hear(pending)
    stage.database.recover()
    stage.redeliver(paid)


def one_payment_two_ids(stage: Stage) -> None:
    """Tell of one payment under two event ids."""
    invoice = stage.invoice(3900)
    stage.deliver(write_event("invoice.paid", invoice, copy=1))
    stage.deliver(write_event("invoice.paid", invoice, copy=2))


def paid_after_void(stage: Stage) -> None:
    """Tell of the payment of an invoice that is void."""
    invoice = stage.invoice(5900)
    stage.deliver(write_event("invoice.created", invoice))
    stage.deliver(write_event("invoice.voided", invoice))
    stage.deliver(write_event("invoice.paid", invoice))


def worker_killed(stage: Stage) -> None:
    """Kill the worker while it stands in front of the ledger with the payment in its hand; start another."""
    paid = write_event("invoice.paid", stage.invoice(24900))
    with stage.database.locked([stage.receivers[0].ledger_table], mode="EXCLUSIVE") as lock:
        stage.start_worker()
        stage.deliver(paid)
        stage.database.await_blocked(stage.receivers, held_by=lock)
        stage.kill_worker()
        stage.start_worker()
    stage.await_settled(paid)
    stage.deliver(paid)


def given_up(stage: Stage) -> None:
    """Tell of a payment that the handler gives up; told of it again, the receiver must not call it processed."""
    paid = write_event("invoice.paid", stage.invoice(6900, currency=UNKNOWN_CURRENCY))
    stage.deliver(paid)
    stage.await_settled(paid)
    stage.deliver(paid)
    [answer] = stage.answers[stage.receivers[0].name][-1]
    if answer.state != "dead":
        raise StoryError(f"the redelivery of a dead event is answered: {answer}")


def one_at_a_time(stage: Stage) -> None:
    """
    Hold the payment of one invoice at the ledger, and tell of it and of another one meanwhile.

    The other one's events are the witness: they were told later and are settled first, so that the worker had every
    opportunity to run what it was not to run.
    """
    held, other = stage.invoice(8900), stage.invoice(4500)
    paid, created = write_event("invoice.paid", held), write_event("invoice.created", held)
    kinds: tuple[EventType, ...] = ("invoice.created", "invoice.voided", "invoice.paid")
    others = [write_event(kind, other) for kind in kinds]
    with stage.database.locked([stage.receivers[0].ledger_table], mode="EXCLUSIVE") as lock:
        stage.deliver(paid)
        stage.database.await_blocked(stage.receivers, held_by=lock)
        for event in (created, *others):
            stage.deliver(event)
        stage.await_settled(*others)
        if (state := stage.state(created)) != "waiting":
            raise StoryError(f"two events of one invoice at a time: the second is {state}")
    stage.await_settled(paid, created)


STORY = (
    Chapter(
        title="An ordinary payment",
        scene=("invoice.created, then invoice.paid, then invoice.paid once more",),
        play=ordinary_payment,
    ),
    Chapter(
        title=f"{COPIES} copies at once",
        scene=(f"invoice.paid {COPIES} times in the same moment, while the ledger is locked",),
        play=copies_at_once,
        fates={"mark after": "doubled"},
    ),
    Chapter(
        title="Out of order",
        scene=("invoice.paid, then invoice.created",),
        play=paid_before_created,
    ),
    Chapter(
        title="Killed before the commit",
        scene=(
            "the ledger is locked; each receiver stands before it, and gets SIGKILL",
            "then it is started again, and Stripe sends again what was not accepted",
        ),
        play=killed_before_commit,
        fates={"mark first": "lost"},
    ),
    Chapter(
        title="Killed after the commit, before the answer",
        scene=(
            "the first commit of each is on disk but not confirmed: SIGKILL, as before",
            "(PostgreSQL holds it back, waiting for a standby that does not exist)",
        ),
        play=killed_after_commit,
        fates={"mark first": "lost", "mark after": "doubled"},
    ),
    Chapter(
        title="The database dies during a delivery",
        scene=("each receiver is at its table of events when PostgreSQL gets SIGKILL",),
        play=database_killed,
        fates={"any error": "lost"},
    ),
    Chapter(
        title="One payment under two event ids",
        scene=("invoice.paid, then invoice.paid of the same invoice with another id",),
        play=one_payment_two_ids,
        fates=dict.fromkeys(("mark first", "mark after", "any error"), "doubled"),
    ),
    Chapter(
        title="A payment for a void invoice",
        scene=("invoice.created, invoice.voided, then invoice.paid",),
        play=paid_after_void,
        ours="for review",
    ),
)

#: Played on our queued receiver alone.
AFTER_THE_ANSWER = (
    Chapter(
        title="The worker is killed with the payment in its hand",
        scene=(
            "the ledger is locked; the worker stands before it, and gets SIGKILL",
            "another worker takes over when the dead one's lease has ended",
        ),
        play=worker_killed,
    ),
    Chapter(
        title="A payment that the handler gives up",
        scene=("invoice.paid in a currency without books; it is dead, and sent once more",),
        play=given_up,
        ours="for review",
    ),
    Chapter(
        title="One invoice at a time, in the order of arrival",
        scene=(
            "invoice.paid, held at the ledger; then invoice.created, which must wait",
            "meanwhile another invoice is created, voided, and paid: for review",
        ),
        play=one_at_a_time,
    ),
)
