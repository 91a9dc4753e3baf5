"""Keep a signing secret usable and unprintable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from webhook_inbox.errors import ConfigurationError


class Secret:
    """
    Hold one signing secret; every way of printing it shows only its label (P-QUIET).

    Args:
        value: The secret exactly as the provider shows it, prefix included.
        label: A name that may be shown and is recorded with each event it verified, so that an operator
            sees when an old secret has stopped being used. Default: ``secret-1`` and so on, by position.

    Raises:
        ConfigurationError: The value is no string, is empty or blank, starts or ends with white space, or is no text.
    """

    __slots__ = ("_label", "_value")

    def __init__(self, value: str, *, label: str = "") -> None:
        flaw = _flaw(value)
        if flaw:
            raise ConfigurationError(f"a signing secret {flaw}")
        self._value = value
        self._label = label

    @property
    def label(self) -> str:
        """Give the name that may be shown."""
        return self._label

    def reveal(self) -> str:
        """Give the value, for the verifier alone."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret(label={self._label!r})"

    def __reduce__(self) -> str:
        raise TypeError("a Secret cannot be pickled")


SecretValue: TypeAlias = str | Secret
SecretsGiven: TypeAlias = SecretValue | Iterable[SecretValue] | Callable[..., object] | None


def secrets_of(given: object, *, setting: str) -> tuple[Secret, ...]:
    """
    Turn what a user configured into labelled secrets, in the order given.

    Args:
        given: A string, a ``Secret``, or several of them.
        setting: What to call it in an error, for instance ``Stripe(secrets=...)``.

    Raises:
        ConfigurationError: None, no entry at all, or an entry that is empty or of another kind.
    """
    entries = (given,) if isinstance(given, str | Secret) else given
    if entries is None or not isinstance(entries, Iterable) or isinstance(entries, bytes | bytearray):
        raise ConfigurationError(
            f"{setting} has no signing secret; give a string, a Secret, or several of them"
        )
    secrets = tuple(_labelled(entry, position, setting) for position, entry in enumerate(entries, start=1))
    if not secrets:
        raise ConfigurationError(f"{setting} is an empty list; give at least one signing secret")
    return secrets


def _labelled(entry: object, position: int, setting: str) -> Secret:
    value, label = (entry.reveal(), entry.label) if isinstance(entry, Secret) else (entry, "")
    flaw = _flaw(value)
    if flaw or not isinstance(value, str):
        raise ConfigurationError(f"{setting}: entry {position} {flaw}")
    return Secret(value, label=label or f"secret-{position}")


def _flaw(value: object) -> str:
    """Say what keeps *value* from being a signing secret of any provider, without showing it; empty if nothing does."""
    if value is None:
        return "is empty; set it to the value that the provider shows"
    if not isinstance(value, str):
        return f"is of type {type(value).__name__}; a signing secret is text"
    if not value or value.isspace():
        return "is empty; set it to the value that the provider shows"
    if value[0].isspace() or value[-1].isspace():
        return "starts or ends with white space, such as the line end of a file; remove it"
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        return "is not text in UTF-8"
    return ""
