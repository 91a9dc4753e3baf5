"""
Recognise Twilio: an HMAC in base64 over the URL that it has and the sorted members of the form.

    forms       messages, calls and what becomes of them: URL, then name and value of each member, nothing between
    JSON        the URL alone is signed, and holds the hash of the body in ``bodySHA256``; an array holds several events

Nothing stands between names and values. Whoever holds one signed form can cut it into other members, and send it under
an idempotency token of their own: the header is not signed.

Source: twilio 9.13.0, ``request_validator.py``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.form import form_of, form_pairs, is_form
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_url import check_public_url, signed_url, url_mismatch
from webhook_inbox.sources.signature import any_equal, digests, only_header
from webhook_inbox.sources.source import Reading, Rejected, Unreadable, Verdict, Verified

Algorithm: TypeAlias = Literal["sha1", "sha256"]
_SDK = "twilio 9.13.0"
_HEADER = "x-twilio-signature"
_SETTINGS = "x-twilio-webhooks-signature-settings"
_TOKEN = "i-twilio-idempotency-token"  # noqa: S105 - a header's name
_BODY_HASH = re.compile("[?&]bodySHA256=([^&#]*)")
_HOST = re.compile(r"(https?)://([^/?#:\[\]]+|\[[^/?#\[\]]*\])(:[0-9]{1,5})?(?=[/?#]|\Z)")
_CLOUD_EVENT = naming_of(created="$.time")
_SINK = naming_of(created="$.time", items="$")
_FORM = Places(event_id=f"header:{_TOKEN} or digest")
# The member that says what happened, and what it happened to; the first that is there counts.
_KINDS = (
    ("EventType", ""),
    ("StatusCallbackEvent", ""),
    ("RecordingStatus", "recording."),
    ("TranscriptionStatus", "transcription."),
    ("MessageStatus", "message."),
    ("SmsStatus", "message."),
    ("CallStatus", "call."),
)


class Twilio(Provider):
    """
    Believe what Twilio signed with one of *secrets*.

    The type of a form is what it says that happened: ``message.delivered``, ``call.completed``, its ``EventType``, or
    ``webhook``; that of JSON is the CloudEvent's.

    Args:
        secrets: The account's primary Auth Token, or the shared key of SharedKey signing; several while one is being
            changed; or a callable asked per request.
        public_url: The webhook's URL to the letter, without query and credentials. Empty: as rebuilt from each request,
            which is right where nothing in front of this program changes scheme, host or path, or where the HTTP
            server knows which proxies to believe.

    Raises:
        ConfigurationError: No secret, or a URL that is none.
    """

    provider = "twilio"
    redelivers = False
    signed_id = False
    empty_answers = True
    facts = Facts(
        title="Twilio",
        signature=Fact(
            "`X-Twilio-Signature: BASE64`, HMAC-SHA1 of the URL and the sorted members of the form, nothing between; "
            "of JSON the URL alone, with the body's hash in `bodySHA256`; HMAC-SHA256 with SharedKey signing",
            _SDK,
        ),
        secret=Fact("the account's primary Auth Token, or a shared key", _SDK),
        event_id=Fact(
            "forms: header `I-Twilio-Idempotency-Token`, else the bytes are the id; JSON: the CloudEvent's `id`",
            "third party",
        ),
        event_type=Fact(
            "JSON: the CloudEvent's `type`; forms have none: it is made of what they say", DIRECTORY
        ),
        window=Fact("no time is signed", _SDK),
        answer=Fact("2xx within 15 s; messages and calls can be answered with TwiML", DIRECTORY, 15),
        retries=Fact(
            "forms: once, when no connection could be made; JSON of Event Streams: for 4 h",
            DIRECTORY,
            4 * 3_600,
        ),
        order=Fact("none", DIRECTORY),
        past_events=Fact("the resources' own APIs; a list of deliveries is not confirmed", DIRECTORY),
        weaknesses=(
            "Neither time nor idempotency token are signed: whoever holds one delivery can send it as another event.",
            "Names and values of a form run together under the signature: it can be cut into other members.",
            "The URL is signed: behind a proxy that changes it, set public_url.",
            "Forms are not sent again after an error: use queued or hybrid mode.",
            "The answer is empty: TwiML is not sent.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, public_url: str = "") -> None:
        super().__init__(secrets)
        self.public_url = check_public_url(public_url, setting=self.setting("public_url"))

    def check_secret(self, secret: Secret) -> None:
        """Take any text."""

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature against the HMAC of URL and form under each secret (P-RAW)."""
        text = only_header(delivery.headers, _HEADER)
        if isinstance(text, Rejected):
            return text
        algorithm = _algorithm_of(delivery.headers)
        if isinstance(algorithm, Rejected):
            return algorithm
        size = hashlib.new(algorithm).digest_size
        candidates = digests([text], encoding="base64", size=size, header=_HEADER)
        if isinstance(candidates, Rejected):
            return candidates
        url = signed_url(delivery, self.public_url)
        members = _signed_members(delivery, url)
        contents = (
            []
            if members is None
            else [each.encode("utf-8", "surrogatepass") + members for each in _spellings(url)]
        )
        for secret in secrets:
            key = secret.reveal().encode()
            if any(any_equal(hmac.digest(key, content, algorithm), candidates) for content in contents):
                return Verified(secret.label)
        return url_mismatch(delivery, url)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of a form, or every CloudEvent of a JSON body."""
        if not is_form(delivery.headers):
            return (_SINK if delivery.body.startswith(b"[") else _CLOUD_EVENT).identify(delivery)
        try:
            members = form_of(delivery.body)
        except PayloadError as error:
            return (Unreadable(reason=str(error)),)
        tokens = delivery.headers.all(_TOKEN)
        event_id = tokens[0] if len(tokens) == 1 else f"sha256:{hashlib.sha256(delivery.body).hexdigest()}"
        return (name_event(_FORM, event_id=event_id, event_type=_type_of(members)),)


def _algorithm_of(headers: Headers) -> Algorithm | Rejected:
    """Give the hash that the headers name; the signature's length holds them to it."""
    if _SETTINGS not in headers:
        return "sha1"
    settings = only_header(headers, _SETTINGS)
    if isinstance(settings, Rejected):
        return settings
    if "algorithm=HMAC_SHA256" in settings.split(","):
        return "sha256"
    return Rejected("signature_version", f"{_SETTINGS} header names no algorithm that is known here")


def _signed_members(delivery: Delivery, url: str) -> bytes | None:
    """Give what is signed after the URL; None where the body is not covered."""
    found = _BODY_HASH.findall(url)
    if found:
        covered = any_equal(
            hashlib.sha256(delivery.body).hexdigest().encode(), [found[0].encode("utf-8", "replace")]
        )
        return b"" if covered and len(found) == 1 else None
    if not delivery.body:
        return b""
    if not is_form(delivery.headers):
        return None
    try:
        pairs = set(form_pairs(delivery.body))  # a value that is sent twice is signed once
    except PayloadError:
        return None
    return "".join([f"{name}{value}" for name, value in sorted(pairs)]).encode()


def _spellings(url: str) -> list[str]:
    """Give *url* as it is, without a port, and with one: Twilio's own library takes each."""
    found = _HOST.match(url)
    if found is None:
        return [url]
    scheme, host, port = found.groups()
    rest = url[found.end() :]
    port = port or (":443" if scheme == "https" else ":80")
    return [url, f"{scheme}://{host}{rest}", f"{scheme}://{host}{port}{rest}"]


def _type_of(members: Mapping[str, str]) -> str:
    for name, kind in _KINDS:
        if value := members.get(name):
            return f"{kind}{value}"
    return "webhook"
