"""
Recognise Plaid by the token that it signs (ES256): the body's SHA-256 and the time of the sending.

The public key is asked for by the id in the token, from Plaid's API alone, with the credentials of the account. It is
kept for an hour, and not used from the moment on at which Plaid says that it expired.

Plaid names no event, and sends the same bytes for two of them: "there are new transactions" reads alike every time. So
every sending is an event of its own; to drop one that was sent before would be to lose the next that looks like it.

Source: plaid.com/docs/api/webhooks/webhook-verification, "Steps to verify webhooks".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import Literal

import msgspec

from webhook_inbox.errors import ConfigurationError, VerificationKeyError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven, SecretValue, secrets_of
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.fetched import Fetched, ask
from webhook_inbox.sources.jwt import Token, key_of, read_json, token_of
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_key import passes
from webhook_inbox.sources.signature import any_equal, mismatch, only_header, outside_tolerance
from webhook_inbox.sources.source import Reading, Rejected, Unreadable, Verdict, Verified

_VERIFY = "plaid.com/docs/api/webhooks/webhook-verification"
_WEBHOOKS = "plaid.com/docs/api/webhooks"
_HEADER = "plaid-verification"
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HOSTS: Mapping[str, str] = MappingProxyType({"live": "production.plaid.com", "test": "sandbox.plaid.com"})
_UNKNOWN_KEY = "INVALID_WEBHOOK_VERIFICATION_KEY_ID"
_SECONDS_BEFORE = 10**12


class _Claims(msgspec.Struct):
    iat: int
    request_body_sha256: str


class _Answer(msgspec.Struct):
    key: msgspec.Raw = msgspec.Raw(b"")
    error_code: str = ""


class Plaid(Provider):
    """
    Believe what Plaid signed.

    Args:
        client_id: Of the account, with which Plaid is asked for its keys.
        secret: Of the account, in this environment.
        environment: ``live`` or ``test`` (Plaid's sandbox): whose keys count.
        keys: The keys that may sign, each a JSON Web Key as Plaid's API gives it, if they are not to be asked for.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.

    Raises:
        ConfigurationError: Neither credentials nor keys, or both; a key that is none, another environment, or a
            tolerance that bounds nothing.
    """

    provider = "plaid"
    naming = naming_of(
        event_id="digest", event_type="$.webhook_type", action="$.webhook_code", environment="$.environment"
    )
    facts = Facts(
        title="Plaid",
        signature=Fact(
            "`Plaid-Verification: JWT`, ES256 alone, with the claims `iat` and `request_body_sha256`", _VERIFY
        ),
        secret=Fact("none: a key, asked for by its id with the account's `client_id` and `secret`", _VERIFY),
        event_id=Fact(
            "none; bytes of the body and signed time are the id, so each sending is an event", _WEBHOOKS
        ),
        event_type=Fact("the body's `webhook_type` and `webhook_code`", _WEBHOOKS),
        window=Fact("300 s, `iat`", _VERIFY, 300),
        answer=Fact("200 within 10 s", _WEBHOOKS, 10),
        retries=Fact(
            "for 24 h, first after 30 s, then each pause four times longer; none while 90 % were refused in 24 h",
            _WEBHOOKS,
            86_400,
        ),
        order=Fact("any, and duplicates are to be expected", _WEBHOOKS),
        weaknesses=(
            "A redelivery is another event: let handlers fetch what changed, as Plaid advises, and not add up.",
            "A first delivery asks Plaid for its key; where Plaid cannot be reached, the answer is 503.",
            "So it is where Plaid does not accept the credentials: the log says so.",
        ),
    )

    def __init__(
        self,
        client_id: str = "",
        secret: SecretValue = "",
        *,
        environment: Literal["live", "test"] = "live",
        keys: SecretsGiven = None,
        tolerance_seconds: float = 300,
        fetched: Fetched | None = None,
    ) -> None:
        if environment not in _HOSTS:
            raise ConfigurationError(f"{self.setting('environment')} must be 'live' or 'test'")
        self._host = _HOSTS[environment]
        self.tolerance_seconds = check_tolerance(tolerance_seconds, setting=self.setting("tolerance_seconds"))
        if bool(client_id) == (keys is not None):
            raise ConfigurationError("Plaid(...) must have client_id and secret, or keys")
        if keys is not None:
            self.secrets = settle_secrets(self, keys, setting=self.setting("keys"))
            return
        self._client_id = client_id
        (self._credential,) = secrets_of(secret, setting=self.setting("secret"))
        self._fetched = fetched or Fetched(self._ask)
        asked: Callable[[Delivery], object] = self._keys
        self.secrets = asked

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no key for ES256."""
        if key_of(secret.reveal()) is None:
            raise ConfigurationError(f"plaid: {secret.label} is no JSON Web Key on the curve P-256")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the token by the key that it names, then the body's hash and the time that it holds."""
        token = _token(delivery.headers)
        if isinstance(token, Rejected):
            return token
        for secret in secrets:
            key = key_of(secret.reveal())
            if key is None or key.key_id != token.key_id or not key.signs_at(delivery.received_at):
                continue
            if passes(key.check, token.signature, token.signed):
                return self._refusal(token, delivery) or Verified(secret.label)
        return mismatch(delivery.body)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name this sending of the body."""
        (reading,) = self.naming.identify(delivery)
        if isinstance(reading, Unreadable):
            return (reading,)
        token = _token(delivery.headers)
        claims = None if isinstance(token, Rejected) else read_json(token.claims, _Claims)
        if claims is None:
            return (Unreadable(reason=f"no signed time in {_HEADER}"),)
        return (replace(reading, event_id=f"{reading.event_id}|{claims.iat}"),)

    def _refusal(self, token: Token, delivery: Delivery) -> Rejected | None:
        """Refuse a token that Plaid signed for another body, or long ago."""
        claims = read_json(token.claims, _Claims)
        if claims is None or not 0 <= claims.iat < _SECONDS_BEFORE:
            return Rejected(
                "timestamp_malformed", f"{_HEADER} header malformed: no iat and request_body_sha256"
            )
        digest = sha256(delivery.body).hexdigest()
        if not any_equal(digest.encode(), [claims.request_body_sha256.encode()]):
            return mismatch(delivery.body)
        return outside_tolerance(claims.iat, delivery.received_at, self.tolerance_seconds)

    def _keys(self, delivery: Delivery) -> list[Secret]:
        """Give the key that the token names, if it is Plaid's; asked on a thread, per delivery."""
        token = _token(delivery.headers)
        if isinstance(token, Rejected):
            return []
        content = self._fetched.get(token.key_id)
        return [] if content is None else [Secret(content.decode(), label=token.key_id)]

    def _ask(self, key_id: str) -> bytes | None:
        """Ask Plaid for a key; None where it has none of this id."""
        asked = {"client_id": self._client_id, "secret": self._credential.reveal(), "key_id": key_id}
        status, content = ask(
            f"https://{self._host}/webhook_verification_key/get", post=json.dumps(asked).encode()
        )
        answer = read_json(content, _Answer) or _Answer()
        if status == HTTPStatus.OK and key_of(bytes(answer.key).decode("utf-8", "replace")):
            return bytes(answer.key)
        if status == HTTPStatus.BAD_REQUEST and answer.error_code == _UNKNOWN_KEY:
            return None
        # A refusal of the credentials is one of ours, and no reason to refuse what Plaid sends.
        raise VerificationKeyError(
            f"{self._host} answers {status}; are client_id and secret of this environment?"
        )


def _token(headers: Headers) -> Token | Rejected:
    text = only_header(headers, _HEADER)
    if isinstance(text, Rejected):
        return text
    token = token_of(text)
    if token is None:
        return Rejected("signature_malformed", f"{_HEADER} header malformed: no JSON Web Token")
    if token.algorithm != "ES256":
        return Rejected("signature_version", f"{_HEADER} is not signed with ES256")
    if not _KEY_ID.fullmatch(token.key_id):
        return Rejected("signature_malformed", f"{_HEADER} header malformed: no kid")
    return token
