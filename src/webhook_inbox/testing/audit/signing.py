"""Sign an audit's events, and forge what looks like them."""

from __future__ import annotations

import random
import re
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.sample import AuditEvent, NamedBy
from webhook_inbox.testing.key_pairs import certificate_pair, ec_pair
from webhook_inbox.testing.signers import SIGNERS, Draft, Signed

_DIGEST = re.compile(r"[A-Za-z0-9+/_-]{20,}=*")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
_PROBE = "audit-probe-of-the-id"
_PROBE_BODY = b'{"audit":1}'
# What names the event in a header, and how: a GUID.
_UUID_SOURCES = frozenset({"bitbucket", "github", "zendesk"})
_DIGITS = str.maketrans("0123456789", "1234567890")
_CUT = 4  # fewer may be padding, which says nothing


@dataclass(frozen=True, slots=True)
class Signatory:
    """
    Sign as *source* does.

    Attributes:
        secret: What the receiver verifies with; the private half where that is a pair.
        url: What is signed as the URL.
    """

    source: str
    secret: str
    event_type: str
    url: str

    def sign(
        self, event: AuditEvent, body: bytes | None = None, *, late_seconds: int = 0, secret: str = ""
    ) -> Signed:
        """
        Sign *event* as of now.

        Args:
            body: What is signed in place of its own.
            late_seconds: How long ago it is signed; below 0: in the future.
            secret: Another one than the receiver's.

        Raises:
            ConfigurationError: The secret or the payload has not the form that the source's have.
        """
        draft = Draft(
            body=event.body if body is None else body,
            secret=secret or self.secret,
            event_id=event.id,
            event_type=self.event_type,
            timestamp=int(time.time()) - late_seconds,
            url=self.url,
        )
        try:
            return SIGNERS[self.source](draft)
        except (ValueError, TypeError, LookupError, AttributeError):
            wrong = f"the secret, or the payload, has not the form that {self.source}'s have"
            raise ConfigurationError(wrong) from None

    @property
    def other_secret(self) -> str:
        """Give a secret of the same form that is not the receiver's."""
        match self.source:
            case "plaid" | "sendgrid":
                return ec_pair(20_011).private
            case "sns":
                return certificate_pair("other.fake.test").private
            case "paypal":
                return f"{self.secret.rpartition(':')[0]}:{certificate_pair('other.fake.test').private}"
            case _:
                return _another(self.secret)

    def named_by(self, event: AuditEvent) -> NamedBy:
        """Say where an event's id stands."""
        made = self.sign(replace(event, id=_PROBE))
        if not any(_PROBE in value for _, value in made.headers):
            return "body"
        return "uuid" if self.source in _UUID_SOURCES else "text"

    def signature_headers(self, event: AuditEvent) -> frozenset[str]:
        """Name the headers that hold the signature; none where it stands in the body."""
        return _differing(self.sign(event), self.sign(event, secret=self.other_secret))

    def covers_body(self, event: AuditEvent) -> bool:
        """Say whether a header signs the body as it is."""
        return bool(_differing(self.sign(event), self.sign(event, event.with_member('"audit":1'))))

    def keeps_body(self, event: AuditEvent) -> bool:
        """Say whether the body is sent as it is, not with a signature written into it."""
        return self.sign(event).body == event.body

    def covers_time(self, event: AuditEvent) -> bool:
        """Say whether the time of the attempt is sent."""
        then = self.sign(event, late_seconds=86_400)
        return then.body != self.sign(event).body or bool(_differing(self.sign(event), then))


def _differing(one: Signed, other: Signed) -> frozenset[str]:
    return frozenset(name for name, value in one.headers if (name, value) not in other.headers)


def without(signed: Signed, names: frozenset[str]) -> Signed:
    """Give *signed* without the headers *names*."""
    return replace(signed, headers=tuple(pair for pair in signed.headers if pair[0] not in names))


def changed(signed: Signed, names: frozenset[str], change: Callable[[str], str]) -> Signed:
    """Give *signed* with the value of each of the headers *names* changed."""
    pairs = ((name, change(value) if name in names else value) for name, value in signed.headers)
    return replace(signed, headers=tuple(pairs))


def cut(value: str, part: float) -> str:
    """Give a signature header with the first *part* of its digest, at least one character; never all of it."""
    start, digest = _digest_of(value)
    return value[: start + max(1, int((len(digest) - _CUT) * part))]


def emptied(value: str) -> str:
    """Give a signature header with its label and without its digest."""
    start, _ = _digest_of(value)
    return value[:start]


def flipped(value: str, chance: random.Random) -> str:
    """Give a signature header with one character of its digest changed to another one of its kind."""
    start, digest = _digest_of(value)
    place = start + chance.randrange(max(1, len(digest) // 2))
    return value[:place] + _other_character(value[place]) + value[place + 1 :]


def _digest_of(value: str) -> tuple[int, str]:
    """Find the last long run of characters; the whole where there is none."""
    found = list(_DIGEST.finditer(value))
    return (found[-1].start(), found[-1][0]) if found else (0, value)


def _other_character(old: str) -> str:
    if old.isdecimal():
        return old.translate(_DIGITS)
    return {"a": "b", "A": "B"}.get(old, "A" if old.isupper() else "a")


def _another(secret: str) -> str:
    """Give another secret of the same form: hex stays hex, base64 base64, a prefix what it is."""
    prefix, mark, rest = secret.rpartition("_")
    if _HEX.fullmatch(rest):
        digits = "0123456789ABCDEF" if rest.isupper() else "0123456789abcdef"
        other = rest.translate(str.maketrans(digits, digits[1:] + digits[0]))
    else:
        other = rest.swapcase().translate(_DIGITS)
    return prefix + mark + (other if other != rest else rest + b64encode(rest.encode()).decode())
