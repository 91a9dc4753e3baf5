"""Hold what a user says about the receiver that is examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webhook_inbox.sources.catalogue import providers

_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    Hold what a user says about the receiver that is examined.

    Attributes:
        url: Where it listens.
        source: Whose deliveries it believes, by its name in ``testing.signers.SIGNERS``.
        secret: What it verifies with; the private half where the source signs with one.
        payloads: What the provider sends, in the order in which it happens; the first is the one that is sent most.
        fresh: Members of the payloads that are made new with each event, such as ``data.object.id``; the first one is
            the event's id, where that stands in the body.
        event_type: Of the events, where it comes in a header.
        public_url: What the source signs as its URL; empty: *url*.
        database: DSN of the receiver's own PostgreSQL, where *effects_sql* runs; it is only read.
        effects_sql: Counts the effects of one event: ``%(event_id)s`` is its id, ``%(data.object.id)s`` a fresh member.
        effect_seconds: How long an effect may take to be seen once its event was acknowledged.
        still_seconds: How long no second effect must come of an event that met the failure, where the receiver does its
            work after the answer.
        breaking: A command that makes the receiver's work fail; run without a shell.
        mending: The command that ends this.
        answer_seconds: Within what the provider wants its answer; None: as its page says, else 10.
        seconds_max: For all of it; what was not tried by then is told.
        seed: Chooses ids and whatever else is left to chance.
        only: Names of the checks that are run; empty: all.
        owned: The receiver is the user's own, wherever it is; else nothing that is not loopback is connected to.
    """

    url: str
    source: str
    secret: str
    payloads: Sequence[bytes]
    fresh: Sequence[str] = ("id",)
    event_type: str = ""
    public_url: str = ""
    database: str = ""
    effects_sql: str = ""
    effect_seconds: float = 15.0
    still_seconds: float = 3.0
    breaking: str = ""
    mending: str = ""
    answer_seconds: float | None = None
    seconds_max: float = 180.0
    seed: int = 0
    only: frozenset[str] = frozenset()
    owned: bool = False

    @property
    def answer_limit(self) -> float:
        """Give the seconds within which the provider wants its answer."""
        facts = next((each.facts for each in providers() if each.provider == self.provider), None)
        return self.answer_seconds or (facts.answer.seconds if facts else None) or _ANSWER_SECONDS

    @property
    def window_seconds(self) -> float | None:
        """Give how old a signed time may be by the provider's page; None where it says nothing."""
        facts = next((each.facts for each in providers() if each.provider == self.provider), None)
        return facts.window.seconds if facts else None

    @property
    def provider(self) -> str:
        """Give the provider as the catalogue calls it: Svix sends Standard Webhooks under headers of its own."""
        return "standard-webhooks" if self.source == "svix" else self.source
