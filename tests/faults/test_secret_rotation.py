"""Roll a signing secret under load, as providers say: the old, both, the new; nobody is refused who should not be."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from itertools import count

import psycopg
import pytest

from tests.faults import asgi
from tests.faults.app import KINDS, counting_handler
from tests.faults.bench import Bench
from tests.faults.ledger import Answer
from tests.faults.paths import applied, stripe_letter
from tests.faults.sender import Letter
from webhook_inbox import Inbox, Secret
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.signing import sign_stripe

OLD = Secret("whsec_fake_rotation_old_00000000", label="old")
NEW = Secret("whsec_fake_rotation_new_00000000", label="new")
SENDERS = 6
#: How many deliveries a phase must have seen before the next begins.
PHASE_DELIVERIES = 40


def signed_with(secret: Secret, body: bytes) -> dict[str, str]:
    """Sign as Stripe, now, with *secret*."""
    return dict(sign_stripe(body, secret.reveal(), int(time.time())))


class Rotation:
    """Senders that never pause, and the secrets that are configured and used at the moment."""

    def __init__(self, bench: Bench, kind: str) -> None:
        self._bench = bench
        self._kind = kind
        self._numbers = count(1)
        self._stopped = False
        self.configured: list[Secret] = [OLD]
        self.used: list[Secret] = [OLD]
        self.letters: list[Letter] = []
        inbox = Inbox(bench.dsn)
        source = Stripe(secrets=lambda _: list(self.configured))
        inbox.endpoint(f"stripe-{kind}", source, mode="inline").on("test.*")(counting_handler(kind))
        self.inbox = inbox
        self._app = inbox.asgi()

    async def attempt(self, secret: Secret) -> Answer:
        """Deliver a new event, signed with *secret*."""
        letter = stripe_letter(f"evt_{secret.label}_{next(self._numbers)}", "test.paid", self._kind)
        letter = replace(letter, sign=partial(signed_with, secret))
        answer = await asgi.deliver(self._app, letter)
        self._bench.ledger.record(letter.event, letter.path, letter.body, answer)
        if answer.heard:
            self.letters.append(letter)
        return answer

    async def send(self, number: int) -> None:
        """Deliver until it is over, with the secrets in use in turn."""
        while not self._stopped:
            await self.attempt(self.used[number % len(self.used)])

    async def phase(self, *, configured: list[Secret], used: list[Secret]) -> None:
        """Go over to other secrets, and see enough deliveries."""
        self.configured, self.used = configured, used
        enough = len(self.letters) + PHASE_DELIVERIES
        async with asyncio.timeout(30):
            while len(self.letters) < enough:
                await asyncio.sleep(0.001)

    def stop(self) -> None:
        """Let the senders end after what they are at."""
        self._stopped = True


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_rolled_under_load_without_a_false_refusal(kind: str, bench: Bench) -> None:
    """Old, both, new: every delivery is believed; the old one, once revoked, is refused at once (P-RAW)."""

    async def story() -> Rotation:
        rotation = Rotation(bench, kind)
        async with rotation.inbox.running():
            senders = [asyncio.create_task(rotation.send(number)) for number in range(SENDERS)]
            await rotation.phase(configured=[OLD], used=[OLD])
            await rotation.phase(configured=[OLD, NEW], used=[OLD, NEW])
            await rotation.phase(
                configured=[NEW, OLD], used=[NEW]
            )  # whoever signed with the old has been heard
            await rotation.phase(configured=[NEW], used=[NEW])
            revoked = await rotation.attempt(OLD)
            rotation.stop()
            await asyncio.gather(*senders)
        assert (revoked.status, revoked.reason) == (400, "signature_mismatch")
        return rotation

    rotation = asyncio.run(story())
    refused = [entry for entry in bench.ledger.entries if entry.status != 200]
    assert [entry.status for entry in refused] == [400]
    bench.check(map(applied, rotation.letters), refused=frozenset({400}))
    with psycopg.connect(bench.dsn) as connection:
        labels = "SELECT DISTINCT split_part(event_id, '_', 2), secret_label FROM webhooks.inbox"
        assert set(connection.execute(labels).fetchall()) == {("old", "old"), ("new", "new")}
