"""
Say what a source is: four pure questions about one delivery, answered from its headers and raw bytes.

    greet     is this what the provider sends before it signs? Answer | None
    verify    did the provider send exactly these bytes?       Verified | Rejected
    answer    is this a handshake, and what does it want?      Answer | None
    identify  which events are in them?                        one Identity | Unreadable for each, in the body's order

All are total: any bytes in, a verdict out, never an exception (P-CALM). They are asked in this order, ``answer`` and
``identify`` only after ``verify`` said ``Verified`` (P-RAW); ``verify`` parses nothing beyond the bounded reading that
the signature itself needs. ``greet`` hears strangers: it gives a constant, or holds what was sent against a token that
the user chose; it never uses a signing secret.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import Facts

if TYPE_CHECKING:
    from webhook_inbox.sources.listing import Listing

BODY_BYTES_MAX = 1_048_576


@dataclass(frozen=True, slots=True)
class Verified:
    """Say that one of the secrets signed exactly these bytes; *label* names which."""

    label: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """
    Say why a delivery is not believed.

    Attributes:
        reason: Stable code for metrics: ``signature_missing``, ``signature_malformed``, ``signature_mismatch``,
            ``signature_version``, ``timestamp_missing``, ``timestamp_malformed``, ``timestamp_out_of_tolerance``,
            ``id_missing``, ``id_malformed``.
        message: One sentence for the sender and the log; never a digest, a secret or a part of the body (P-QUIET).
        status: 400, or 401 where the provider's protocol asks for it.
    """

    reason: str
    message: str
    status: int = 400


Verdict: TypeAlias = Verified | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """
    Name one event of a verified body.

    Attributes:
        event_id: 1 to 255 characters, not blank, no NUL; equal on every redelivery.
        event_type: 1 to 255 characters, no NUL, literally as sent.
        account: Connected account or tenant where the signature covers it, else empty.
        environment: ``live``, ``test``, or empty; only where the signature covers it.
        created_at: When the provider says it happened (aware, UTC); None where absent or absurd.
        span: (start, end) byte offsets of this event within a batched body; None: the whole body.
        ignore: Why the event must have no effect (for instance a test event at a live source); empty: it may.
    """

    event_id: str
    event_type: str
    account: str = ""
    environment: str = ""
    created_at: datetime | None = None
    span: tuple[int, int] | None = None
    ignore: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """
    Say why an authentic body, or one item of it, cannot be identified or parsed; it will be quarantined.

    Attributes:
        reason: A sentence such as ``no event id at $.id``; never quotes the body (P-QUIET).
        span: As in ``Identity``.
    """

    reason: str
    span: tuple[int, int] | None = None


Reading: TypeAlias = Identity | Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Give the response that a provider's handshake wants; from 400 on it is refused."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Source(ABC):
    """
    One configured sender with its secrets.

    Subclass it for a provider of your own; ``Hmac`` covers most without a subclass.

    Attributes:
        provider: Kind of sender; part of the event key, so it never changes.
        redelivers: Whether the provider sends again by itself after a 5xx; without that, inline mode would lose events.
        signed_id: Whether one signature covers the event id and the whole event; where not, a second body under one
            id is kept as evidence.
        body_bytes_max: The largest body this provider sends, in bytes.
        secret_headers: Lower-case names of headers that carry credentials; their values are never stored (P-QUIET).
        methods: HTTP methods beside POST that the provider's handshakes use.
        success_status: With what the provider wants received events to be answered.
        empty_answers: Whether the provider wants answers without a body.
        event_id_form: What an event id looks like; None: anything.
        key_parts: Which of ``account`` and ``environment`` every event key has.
        optional_key_parts: Which of the two an event key may have; any other is always empty.
        reconciles: Whether the provider can be asked for what it has sent; then a key makes the instance's ``listing``.
        facts: What is known about the provider, for the catalogue; None for a source of the user's own.
        listing: How the provider is asked for what it has sent; None where it cannot be, or no key was given for it.
        secrets: What the user configured: a string, several, or a callable asked per request with the ``Delivery``.
    """

    provider: str
    redelivers: bool = True
    signed_id: bool = True
    body_bytes_max: int = BODY_BYTES_MAX
    secret_headers: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    success_status: int = 200
    empty_answers: bool = False
    event_id_form: re.Pattern[str] | None = None
    key_parts: frozenset[str] = frozenset()
    optional_key_parts: frozenset[str] = frozenset({"account", "environment"})
    reconciles: bool = False
    facts: Facts | None = None
    listing: Listing | None = None
    secrets: SecretsGiven

    @abstractmethod
    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """
        Decide whether one of *secrets* signed exactly the bytes of *delivery*, at a time within the tolerance.

        Never raises. ``delivery.received_at`` is the only clock it may look at.
        Promises: P-RAW, P-CALM.
        """

    @abstractmethod
    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """
        Name every event of a verified *delivery*, in the body's order; at least one reading.

        Never raises.
        Promises: P-CALM.
        """

    def greet(self, delivery: Delivery) -> Answer | None:  # noqa: ARG002 - for sources that have such handshakes
        """
        Give the response to a handshake that carries no signature, or None: then *delivery* must be signed.

        Never raises. A stranger may ask: the answer is a constant, or repeats what came with the user's own token.
        Promises: P-CALM.
        """
        return None

    def answer(
        self,
        delivery: Delivery,  # noqa: ARG002 - for sources that have handshakes
        secrets: Sequence[Secret],  # noqa: ARG002
    ) -> Answer | None:
        """
        Give the response to a verified handshake, or None where *delivery* carries events.

        Args:
            secrets: Those that verified it, for a provider that asks for proof that its secret is known here. Nothing
                is ever signed that could be taken for a delivery.

        Never raises.
        Promises: P-CALM.
        """
        return None

    def check_secret(self, secret: Secret) -> None:  # noqa: B027 - most sources take any text
        """
        Refuse a secret that cannot be right for this provider.

        Raises:
            ConfigurationError: Says which form is expected, without printing the value.
        """
