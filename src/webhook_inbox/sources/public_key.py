"""
Verify what a provider signs with a private key, against the public one that the user configured.

What is signed is a time and the body, with nothing between them; so the time has the one length of Unix seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from cryptography.exceptions import InvalidSignature

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.keys import check_tolerance
from webhook_inbox.sources.signature import mismatch, only_header
from webhook_inbox.sources.signed_time import SignedTime
from webhook_inbox.sources.source import Rejected, Verdict, Verified

# Raises InvalidSignature unless the first argument is the key's signature of the second.
Check: TypeAlias = Callable[[bytes, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScheme:
    """
    Describe one way of signing time and body with a private key.

    Attributes:
        header: Name of the signature header, in lower case.
        spelled: How the signature is spelled there, for a refusal.
        read: Gives the signature that the header spells, or None.
        key_of: Gives what checks a signature by the public key in a secret, or what is wrong with the secret.
        time: The signed time.
    """

    header: str
    spelled: str
    read: Callable[[str], bytes | None]
    key_of: Callable[[str], Check | str]
    time: SignedTime

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Decide whether the private half of one of *secrets* signed this delivery, within the tolerance (P-RAW)."""
        text = only_header(delivery.headers, self.header)
        if isinstance(text, Rejected):
            return text
        signature = self.read(text)
        if signature is None:
            return Rejected("signature_malformed", f"{self.header} header malformed: no {self.spelled}")
        sent = self.time.sent(delivery.headers, ())
        if isinstance(sent, Rejected):
            return sent
        content = sent.encode("ascii") + delivery.body
        for secret in secrets:
            check = self.key_of(secret.reveal())
            if not isinstance(check, str) and passes(check, signature, content):
                late = self.time.refuse_late(sent, delivery.body, delivery.received_at)
                return late or Verified(secret.label)
        return mismatch(delivery.body)

    def within(self, tolerance_seconds: float, *, setting: str) -> Self:
        """
        Give this scheme with another tolerance.

        Raises:
            ConfigurationError: A tolerance that bounds nothing.
        """
        tolerance_seconds = check_tolerance(tolerance_seconds, setting=setting)
        return replace(self, time=replace(self.time, tolerance_seconds=tolerance_seconds))


def passes(check: Check, signature: bytes, content: bytes) -> bool:
    """Say whether *signature* is that of *content*."""
    try:
        check(signature, content)
    except InvalidSignature:
        return False
    return True
