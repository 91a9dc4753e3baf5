"""A wrong secret or tolerance stops the start, with the setting's name and without the value."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.source import Reading, Source, Unreadable, Verdict, Verified


class Picky(Source):
    """Take only secrets that begin with ``fake``."""

    provider = "picky"

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        return Verified(f"{len(secrets)} secrets, {len(delivery.body)} bytes")

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        return (Unreadable(reason=f"{len(delivery.body)} bytes"),)

    def check_secret(self, secret: Secret) -> None:
        if not secret.reveal().startswith("fake"):
            raise ConfigurationError(f"picky: {secret.label} is wrong")


def test_every_secret_is_checked_and_kept_in_order() -> None:
    """Several, and an iterator that can be read only once."""
    settled = settle_secrets(Picky(), iter(["fake-1", "fake-2"]), setting="here")
    assert isinstance(settled, tuple)
    assert [(secret.label, secret.reveal()) for secret in settled if isinstance(secret, Secret)] == [
        ("secret-1", "fake-1"),
        ("secret-2", "fake-2"),
    ]


def test_one_wrong_secret_among_good_ones_is_refused() -> None:
    """C10: a list is not good because some of it is."""
    with pytest.raises(ConfigurationError, match=r"^picky: secret-2 is wrong$"):
        settle_secrets(Picky(), ["fake-1", "real-2"], setting="here")
    with pytest.raises(ConfigurationError, match=r"^here has no signing secret; "):
        settle_secrets(Picky(), None, setting="here")


def test_a_callable_is_handed_on_to_be_asked_later() -> None:
    """It needs a delivery; what it answers is checked then."""

    def ask(_: Delivery) -> str:
        raise AssertionError("asked before there was a delivery")

    assert settle_secrets(Picky(), ask, setting="here") is ask


@pytest.mark.parametrize("seconds", [300, 0.5, 1, 10**6])
def test_a_tolerance_that_bounds_is_given_back(seconds: float) -> None:
    """Whole or not."""
    assert check_tolerance(seconds, setting="here") == seconds


@pytest.mark.parametrize("seconds", [0, -1, -0.1, float("inf"), float("nan"), True, None, "300"])
def test_a_tolerance_that_bounds_nothing_is_refused(seconds: object) -> None:
    """P-CLOCK: zero, infinity and None are how replay protection gets switched off without a word."""
    with pytest.raises(ConfigurationError, match=r"^here must be a number of seconds above 0$"):
        check_tolerance(seconds, setting="here")  # type: ignore[arg-type]  # what an untyped program may do
