"""Refuse a wrong signing secret while the program starts, not while events arrive."""

from __future__ import annotations

import math

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import SecretsGiven, secrets_of
from webhook_inbox.sources.source import Source


def settle_secrets(source: Source, given: SecretsGiven, *, setting: str) -> SecretsGiven:
    """
    Give the secrets of *source*, each of a form its provider issues; a callable is handed on, to be asked per request.

    Args:
        setting: What to call it in an error, for instance ``Stripe(secrets=...)``.

    Raises:
        ConfigurationError: None, empty, or of a wrong form; the value is never shown (P-QUIET).
    """
    if callable(given):
        return given
    secrets = secrets_of(given, setting=setting)
    for secret in secrets:
        source.check_secret(secret)
    return secrets


def check_tolerance(tolerance_seconds: float, *, setting: str) -> float:
    """
    Give *tolerance_seconds* if it bounds anything.

    Raises:
        ConfigurationError: Not a number above 0: without a bound an old delivery could be replayed for ever.
    """
    number = isinstance(tolerance_seconds, int | float) and not isinstance(tolerance_seconds, bool)
    if number and math.isfinite(tolerance_seconds) and tolerance_seconds > 0:
        return tolerance_seconds
    raise ConfigurationError(f"{setting} must be a number of seconds above 0")
