"""Turn a page about one provider into a source: how it signs, how it names its events, what is known about it."""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import Facts
from webhook_inbox.sources.keys import settle_secrets
from webhook_inbox.sources.naming import Naming
from webhook_inbox.sources.scheme import Scheme
from webhook_inbox.sources.source import Reading, Source, Verdict


class Provider(Source):
    """
    Believe what one provider signed with one of *secrets*; the subclass says how.

    Args:
        secrets: A string, several while one is being rolled, or a callable asked per request.

    Attributes:
        scheme: How deliveries are signed, for the many that sign with one HMAC; the others override ``verify``.
        naming: Where id, type, account and time of an event stand; the others override ``identify``.
        facts: What is known, with sources.

    Raises:
        ConfigurationError: A secret of a wrong form.
    """

    scheme: Scheme
    naming: Naming
    facts: Facts
    optional_key_parts = frozenset[str]()

    def __init__(self, secrets: SecretsGiven) -> None:
        self.secrets = settle_secrets(self, secrets, setting=self.setting("secrets"))
        if (naming := getattr(self, "naming", None)) is not None:
            self.key_parts = naming.key_parts - self.optional_key_parts

    @classmethod
    def setting(cls, name: str) -> str:
        """Give what an error calls a setting of this class, for instance ``GitHub(secrets=...)``."""
        return f"{cls.__name__}({name}=...)"

    def check_secret(self, secret: Secret) -> None:
        """Refuse a secret from which no key can be read."""
        key = self.scheme.key_of(secret.reveal())
        if isinstance(key, str):
            raise ConfigurationError(f"{self.provider}: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold every signature that was sent against the HMAC of the signed content under each secret (P-RAW)."""
        return self.scheme.verify(delivery, secrets)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the event of the body, or every item of a batched one."""
        return self.naming.identify(delivery)
