"""
Recognise any sender that signs with an HMAC, from a description of its scheme.

    github = Hmac(
        "github",
        secrets=os.environ["GITHUB_WEBHOOK_SECRET"],
        header="X-Hub-Signature-256",
        prefix="sha256=",
        event_id="header:X-GitHub-Delivery",
        event_type="header:X-GitHub-Event",
    )
    slack = Hmac(
        "slack",
        secrets=os.environ["SLACK_SIGNING_SECRET"],
        header="X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="header:X-Slack-Request-Timestamp",
        tolerance_seconds=300,
        event_id="$.event_id",
        event_type="$.event.type",
        account="$.team_id",
        created="$.event_time",
        redelivers=True,
    )
    shopify = Hmac(
        "shopify",
        secrets=os.environ["SHOPIFY_CLIENT_SECRET"],
        header="X-Shopify-Hmac-SHA256",
        encoding="base64",
        event_id="header:X-Shopify-Event-Id",
        event_type="header:X-Shopify-Topic",
        redelivers=True,
    )
    paddle = Hmac(
        "paddle",
        secrets=os.environ["PADDLE_WEBHOOK_SECRET"],
        header="Paddle-Signature",
        separator=";",
        prefix="h1=",
        signed="{timestamp}:{body}",
        timestamp="part:ts",
        tolerance_seconds=5,
        event_id="$.event_id",
        event_type="$.event_type",
        created="$.occurred_at",
        redelivers=True,
    )
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.keys import settle_secrets
from webhook_inbox.sources.naming import Naming, naming_of
from webhook_inbox.sources.scheme import Algorithm, KeyForm, Scheme, scheme_of
from webhook_inbox.sources.signature import Encoding
from webhook_inbox.sources.signed_time import TimeUnit
from webhook_inbox.sources.source import BODY_BYTES_MAX, Reading, Source, Verdict

_PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, eq=False)
class Hmac(Source):
    """
    Believe what was signed, by the scheme described, with one of *secrets*.

    Places are written ``$.data.id`` (a member of the JSON body), ``header:X-Event-Id``, or, for the signed time,
    ``part:t`` (of a signature header such as ``t=...,v1=...``).

    Args:
        provider: Kind of sender, 1 to 64 of ``a-z 0-9 _ -``; part of the event key: choose once.
        secrets: A string, several while one is being rolled, or a callable asked per request.
        header: The signature header.
        algorithm: The HMAC's hash: ``sha256``, ``sha384``, ``sha512``; ``sha1`` where a provider has nothing better.
        encoding: ``hex`` (lower case), ``hex-upper`` or ``base64`` (with padding); each digest has one spelling only.
        prefix: What precedes the signature, for instance ``sha256=``; anything else in its place does not count.
        separator: Where the header is a list: what stands between its parts. Of those that start with *prefix*, one
            must match.
        signed: The signed content: ``{body}`` once, and ``{timestamp}``, ``{id}`` (the header of *event_id*),
            ``{method}`` and ``{url}`` (as your ASGI or WSGI server sees it) where the provider signs them too. A URL
            that is signed as you registered it is simply written out: ``https://example.com/hooks/square{body}``.
        timestamp: Where the signed time stands; in the body only if the body is all that is signed. Where nothing
            stands between it and what else is signed, it must have its full length: 10 digits, 13 in milliseconds, a
            final Z.
        timestamp_unit: ``s`` or ``ms`` since 1970, or ``iso`` (ISO 8601).
        tolerance_seconds: How far that time may lie from this host's clock, either way. Required with *timestamp*.
        key: How the key is spelled: ``text`` (used as it is), ``base64`` or ``hex``.
        key_prefix: What precedes it in the secret and is no part of the key.
        event_id: Where the event id stands. A header outside the signed content makes ``signed_id`` false. Where the
            provider sends none, ``digest``: the same bytes are the same event.
        event_type: Where the event type stands.
        account: The member that names the account or tenant; empty: none.
        environment: The member that tells live from test: true and ``live`` or ``production``, false and ``test`` or
            ``sandbox``; anything else is neither.
        created: Where the time of the event stands (ISO 8601, or seconds or milliseconds since 1970); empty: nowhere.
        items: For batched bodies, the array: ``$`` or ``$.events``. Each item is an event, and the places in the body
            are those of the item (except the signed time).
        redelivers: Whether the provider sends again by itself after a 5xx. False is the safe answer: inline mode, in
            which only a redelivery brings back an event whose handler failed, then refuses to start.
        body_bytes_max: The largest body this provider sends.

    Raises:
        ConfigurationError: A description that contradicts itself, or a secret of a wrong form.
    """

    provider: str
    _: KW_ONLY
    secrets: SecretsGiven = field(repr=False)
    header: str
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    prefix: str = ""
    separator: str = ""
    signed: str = "{body}"
    timestamp: str = ""
    timestamp_unit: TimeUnit = "s"
    tolerance_seconds: float | None = None
    key: KeyForm = "text"
    key_prefix: str = field(default="", repr=False)
    event_id: str = "$.id"
    event_type: str = "$.type"
    account: str = ""
    environment: str = ""
    created: str = ""
    items: str = ""
    redelivers: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    signed_id: bool = field(init=False)
    _scheme: Scheme = field(init=False, repr=False)
    _naming: Naming = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not _PROVIDER.fullmatch(self.provider):
            raise ConfigurationError(
                "Hmac(provider) must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter"
            )
        if self.body_bytes_max < 1:
            raise ConfigurationError("Hmac(body_bytes_max=...) must be above 0")
        scheme = scheme_of(
            header=self.header,
            separator=self.separator,
            prefix=self.prefix,
            algorithm=self.algorithm,
            encoding=self.encoding,
            signed=self.signed,
            event_id=self.event_id,
            timestamp=self.timestamp,
            timestamp_unit=self.timestamp_unit,
            tolerance_seconds=self.tolerance_seconds,
            key=self.key,
            key_prefix=self.key_prefix,
        )
        naming = naming_of(
            event_id=self.event_id,
            event_type=self.event_type,
            account=self.account,
            environment=self.environment,
            created=self.created,
            items=self.items,
        )
        self._set("_scheme", scheme)
        self._set("_naming", naming)
        self._set("key_parts", naming.key_parts)
        self._set("optional_key_parts", frozenset())
        self._set("signed_id", naming.id_in_body or bool(scheme.id_header))
        self._set("secrets", settle_secrets(self, self.secrets, setting="Hmac(secrets=...)"))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # frozen for everybody else

    def check_secret(self, secret: Secret) -> None:
        """Refuse a secret from which no key can be read."""
        key = self._scheme.key_of(secret.reveal())
        if isinstance(key, str):
            raise ConfigurationError(f"{self.provider}: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Compare every signature of the header with the HMAC of the signed content under each secret (P-RAW)."""
        return self._scheme.verify(delivery, secrets)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the event of the body, or every item of a batched one."""
        return self._naming.identify(delivery)
