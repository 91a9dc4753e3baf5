"""
Deliver as Stripe and others do: sign afresh for every attempt, send again until 2xx is heard, and keep account.

The signatures are written from the providers' texts (``webhook_inbox.testing.signing``) and share no code with the
verifiers.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.faults.ledger import Answer, Ledger
from webhook_inbox.testing.signing import sign_hmac, sign_stripe

Address: TypeAlias = tuple[str, int]
STRIPE_SECRET = "whsec_fake_fault_tests_0000000000"
HMAC_SECRET = "fake_fault_tests_hmac_secret_0000"
ANSWER_SECONDS_MAX = 60.0
ATTEMPTS_MAX = 200


def stripe_headers(body: bytes) -> dict[str, str]:
    """Sign as Stripe, now."""
    return dict(sign_stripe(body, STRIPE_SECRET, int(time.time())))


def hmac_headers(body: bytes) -> dict[str, str]:
    """Sign with a plain HMAC."""
    return dict(sign_hmac(body, HMAC_SECRET, "x-signature"))


def forged_headers(body: bytes) -> dict[str, str]:
    """Sign with a secret that is nobody's."""
    return dict(sign_stripe(body, "whsec_fake_somebody_else_000000", int(time.time())))


@dataclass(frozen=True, slots=True)
class Letter:
    """
    Hold one delivery, to be attempted as often as it takes.

    Attributes:
        event: The sender's name for it, in the ledger; the event id where it has one.
        path: ``/endpoint``.
        headers: Beside those of the signature.
        sign: Gives the headers of a signature made now.
        answered: The status that ends the attempts.
    """

    event: str
    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    sign: Callable[[bytes], dict[str, str]] = stripe_headers
    answered: Callable[[int], bool] = lambda status: 200 <= status < 300


@dataclass(frozen=True, slots=True)
class Sender:
    """
    Send letters to one server and note each attempt.

    Attributes:
        address: Host and port.
        ledger: Where attempts are noted.
        answer_seconds_max: After this long without an answer the attempt is given up, as a provider does.
        attempts_max: After as many the delivery is given up, which no test is meant to see.
    """

    address: Address
    ledger: Ledger
    answer_seconds_max: float = ANSWER_SECONDS_MAX
    attempts_max: int = ATTEMPTS_MAX

    def attempt(self, letter: Letter, **headers: str) -> Answer:
        """Send *letter* once, with *headers* beside its own (``x_fault_point`` becomes ``x-fault-point``)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"content-type": "application/json", **letter.headers, **letter.sign(letter.body), **named}
        answer = post(self.address, letter.path, letter.body, sent, seconds_max=self.answer_seconds_max)
        self.ledger.record(letter.event, letter.path, letter.body, answer)
        return answer

    def deliver(self, letter: Letter) -> Answer:
        """
        Send *letter* until it is answered; a status that tells some senders to stop for good fails the test.

        Waits between attempts only for as long as the receiver asks it to, cut to a twentieth of a second.
        """
        for _ in range(self.attempts_max):
            answer = self.attempt(letter)
            if answer.status is not None and letter.answered(answer.status):
                return answer
            assert answer.status is None or answer.status >= 500, f"{letter.event} was answered {answer}"
            if answer.status == 503:
                time.sleep(min(0.05, float(answer.headers["retry-after"])))
        raise AssertionError(f"{letter.event} was not acknowledged in {self.attempts_max} attempts: {answer}")


def post(
    address: Address, path: str, body: bytes, headers: Mapping[str, str], *, seconds_max: float
) -> Answer:
    """Make one POST on a connection of its own; a connection that ends without an answer is an answer too."""
    connection = http.client.HTTPConnection(*address, timeout=seconds_max)
    try:
        connection.request("POST", path, body, {"connection": "close", **headers})
        response = connection.getresponse()
        given = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, given, response.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(None, {}, b"", f"{type(error).__name__}: {error}")
    finally:
        connection.close()
