"""
Recognise Mailgun by a signature inside the body that covers a time and a token, and nothing of the event.

Whoever has seen one delivery can send any event under its token. So the token is the event id, which makes every
further use of it a duplicate; another body under it is kept as evidence; and the signed time bounds how late it may
come.
``event-data.id`` is unique only within a day.

Source: django-anymail 15.2; documentation.mailgun.com, "Securing webhooks".
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.keys import check_tolerance
from webhook_inbox.sources.place import BodyPlace, Fields
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.signature import any_equal, lower_hex, outside_tolerance, unix_time
from webhook_inbox.sources.source import Reading, Rejected, Unreadable, Verdict, Verified

_RETRIES = "Mailgun, Automatic retries"
_ANYMAIL = "django-anymail 15.2"
_DAY_SECONDS = 86_400
_TIME_DIGITS = 10
_TOKEN_CHARS_MAX = 128
# First where today's webhooks have them, then where the forms of the older ones do.
_FIELDS = Fields(
    tuple(
        BodyPlace(path)
        for path in (
            ("signature", "timestamp"),
            ("signature", "token"),
            ("signature", "signature"),
            ("timestamp",),
            ("token",),
            ("signature",),
            ("event-data", "event"),
            ("event-data", "severity"),
            ("event-data", "timestamp"),
            ("event",),
        )
    )
)
_PLACES = Places(event_id="$.signature.token", event_type="$.event-data.event")
_NO_SIGNATURE = Rejected("signature_missing", "no signature in the body")


class Mailgun(Provider):
    """
    Believe what carries a token that Mailgun signed with one of *secrets*.

    Today's webhooks (JSON) and the older ones (forms) are both read. The type is ``delivered``, or with the severity
    ``failed.permanent``.

    Args:
        secrets: The account's HTTP webhook signing key; several while one is being rolled; or a callable asked per
            request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
            Mailgun states none; a day takes its retries, which go on for 8 hours.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "mailgun"
    redelivers = False
    signed_id = False
    facts = Facts(
        title="Mailgun",
        signature=Fact(
            "the body's `signature.signature: HEX`, HMAC-SHA256 of `timestamp` and `token`; the event is not covered",
            _ANYMAIL,
        ),
        secret=Fact("the account's HTTP webhook signing key; a rotation takes effect at once", DIRECTORY),
        event_id=Fact(
            "the body's `signature.token`, whether a retry repeats it is not confirmed; `event-data.id` is unique only "
            "within a day",
            _ANYMAIL,
        ),
        event_type=Fact("the body's `event-data.event`, and its `severity`", _ANYMAIL),
        window=Fact("none is stated, `signature.timestamp`", DIRECTORY),
        answer=Fact("200; 406 stops the retries, so this source never sends it", _RETRIES),
        retries=Fact(
            "after 5, 10, 15 min, 1, 2 and 4 h; none for delivery notifications", _RETRIES, 8 * 3_600
        ),
        past_events=Fact("there is an Events API, not checked"),
        weaknesses=(
            "Nothing of the event is signed: whoever has seen a token first can send any event under it.",
            "Delivery notifications are not sent again: use queued or hybrid mode.",
            "Should a retry bear another token, it is another event.",
            "An older webhook that comes as multipart/form-data is not read, and refused.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = _DAY_SECONDS) -> None:
        super().__init__(secrets)
        self.tolerance_seconds = check_tolerance(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def check_secret(self, secret: Secret) -> None:
        """Take any text."""

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature in the body against the HMAC of its time and token under each secret."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return _NO_SIGNATURE
        signed = _signed(values)
        if isinstance(signed, Rejected):
            return signed
        signed_at, content, candidate = signed
        for secret in secrets:
            if any_equal(hmac.digest(secret.reveal().encode(), content, "sha256"), (candidate,)):
                late = outside_tolerance(signed_at, delivery.received_at, self.tolerance_seconds)
                return late or Verified(secret.label)
        return Rejected("signature_mismatch", "the signature in the body was made with another secret")

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body by its token."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        _, token, _, _, older_token, _, event, severity, created, older_event = values
        event_type = event if event is not None else older_event
        if isinstance(event_type, str) and isinstance(severity, str) and severity:
            event_type = f"{event_type}.{severity}"
        token = token if token is not None else older_token
        return (name_event(_PLACES, event_id=token, event_type=event_type, created=created),)


def _signed(values: Sequence[object]) -> tuple[int, bytes, bytes] | Rejected:
    """Give the signed time, the signed content and the signature."""
    given = values[:3] if values[1] is not None else values[3:6]
    time_text, token, signature = given
    if time_text is None or token is None or not signature or not isinstance(signature, str):
        return _NO_SIGNATURE
    time_text = str(time_text) if isinstance(time_text, int) else time_text
    # Nothing stands between time and token: with a time of any length, one signature would be good for several tokens.
    signed_at = (
        unix_time(time_text) if isinstance(time_text, str) and len(time_text) == _TIME_DIGITS else None
    )
    if signed_at is None:
        return Rejected("timestamp_malformed", "the signature in the body has no unix time")
    if not isinstance(token, str) or not 0 < len(token) <= _TOKEN_CHARS_MAX or not token.isascii():
        return Rejected("id_malformed", "the signature in the body has no token of ASCII characters")
    digest = lower_hex(signature, 32)
    if digest is None:
        return Rejected("signature_malformed", "the signature in the body is no lower-case hex of 32 bytes")
    return signed_at, f"{time_text}{token}".encode("ascii"), digest
