"""Make deliveries and read the shared payloads; every test of a source begins here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, secrets_of
from webhook_inbox.sources import Rejected, Source, Verified

NOW = 1_767_225_600
STRIPE_SECRET = "whsec_fake_stripe_one_000000"
STANDARD_SECRET = "whsec_ZmFrZS1zdGFuZGFyZC13ZWJob29rcy1r"
PAYLOADS = Path(__file__).parents[1] / ".." / "shared" / "payloads"


def delivery(
    body: bytes,
    headers: Iterable[tuple[str, str]] = (),
    *,
    now: float = NOW,
    method: str = "POST",
    url: str = "https://receiver.example.test/hooks/one",
) -> Delivery:
    """Make the request that a source is asked about."""
    return Delivery(method=method, url=url, headers=Headers(headers), body=body, received_at=now)


def secrets(source: Source) -> tuple[Secret, ...]:
    """Give the secrets that *source* was configured with, as the runtime hands them on."""
    return secrets_of(source.secrets, setting="test")


def verdict(source: Source, of: Delivery, given: Sequence[Secret] | None = None) -> Verified | Rejected:
    """Ask *source* whether it believes the delivery."""
    return source.verify(of, secrets(source) if given is None else given)


def payload_files(*folders: str) -> list[Path]:
    """Give every file in *folders* of the shared payloads, sorted; none missing."""
    files = sorted(path for folder in folders for path in (PAYLOADS / folder).iterdir() if path.is_file())
    assert files, f"no payloads in {folders}"
    return files
