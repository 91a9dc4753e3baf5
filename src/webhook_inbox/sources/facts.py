"""
Say what is known about a provider, and where each statement stands.

A source's class holds its facts; ``docs/reference/sources.md`` and ``webhook-inbox sources`` are made from them, so
neither can say what the other does not. What was not confirmed is ``UNKNOWN``: that does not mean "no".
"""

from __future__ import annotations

from dataclasses import dataclass

# Third parties that are named often; everything else names its page where it is cited.
DIRECTORY = "third party: github.com/webhook-co/webhook at de3aa4e8, checked against the provider's pages in July 2026"
HOOKDECK = "third party: Hookdeck's guides (hookdeck.com, github.com/hookdeck/webhook-skills)"


@dataclass(frozen=True, slots=True)
class Fact:
    """
    State one thing.

    Attributes:
        text: The statement, a phrase without a full stop; empty: not confirmed.
        source: The page, SDK or source code where it stands; third parties are called so.
        seconds: The number of seconds in it, where a program needs that: the time limit, the span of the retries.
    """

    text: str = ""
    source: str = ""
    seconds: float | None = None


UNKNOWN = Fact()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    Hold the facts about one provider.

    Attributes:
        title: The provider's name, as it writes it.
        signature: The headers, what is signed and how.
        secret: What the secret looks like, where it is found, what happens while it is being changed.
        event_id: Where the id stands, and whether a redelivery repeats it.
        event_type: Where the type stands.
        window: How old the signed time may be.
        handshake: What an endpoint must answer before it is used; ``UNKNOWN`` where nothing is asked.
        answer: What counts as received, and within how many seconds.
        retries: When a delivery is sent again, and over how many seconds.
        order: What is promised about order.
        past_events: How to ask for what was missed.
        list_api: Whether an API lists past events; None: not confirmed.
        weaknesses: What a user of this source should know, a sentence each.
    """

    title: str
    signature: Fact
    secret: Fact = UNKNOWN
    event_id: Fact
    event_type: Fact
    window: Fact = UNKNOWN
    handshake: Fact = UNKNOWN
    answer: Fact
    retries: Fact
    order: Fact = UNKNOWN
    past_events: Fact = UNKNOWN
    list_api: bool | None = None
    weaknesses: tuple[str, ...] = ()
