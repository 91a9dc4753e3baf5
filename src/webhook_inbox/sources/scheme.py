"""
Verify any HMAC over any signed content, from a description of where everything stands.

The description is checked once, when a source is made; after that every function here is total (P-CALM).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, assert_never, get_args

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.keys import check_tolerance
from webhook_inbox.sources.place import HeaderPlace, header_of, place_of
from webhook_inbox.sources.signature import (
    SIGNATURES_MAX,
    Encoding,
    any_equal,
    digests,
    every_header,
    mismatch,
    only_header,
)
from webhook_inbox.sources.signed_time import SignedTime, TimeUnit, signed_time_of
from webhook_inbox.sources.source import Rejected, Verdict, Verified
from webhook_inbox.sources.template import Slot, Template, template_of

Algorithm: TypeAlias = Literal["sha1", "sha256", "sha384", "sha512"]
KeyForm: TypeAlias = Literal["text", "base64", "hex"]
# One header; the same header for each secret that is being rolled, which WSGI and proxies join with commas (Mollie); or
# X-...-1, X-...-2 and so on (DocuSign).
Spread: TypeAlias = Literal["one", "repeated", "numbered"]
_HEX_KEY = re.compile(r"(?:[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """
    Describe one way of signing.

    Attributes:
        header: Name of the signature header, in lower case.
        spread: Over which headers the signatures may be spread.
        signatures_max: How many of them are looked at.
        separator: What stands between the parts of that header; empty where it is one part.
        prefix: What a signature's part starts with.
        template: The signed content.
        time: The signed time; None where there is none.
        id_header: The header that fills ``{id}``; empty where the template has no such slot.
        key: How the key is spelled in the secret, after *key_prefix*.
    """

    header: str
    spread: Spread
    signatures_max: int
    separator: str
    prefix: str
    algorithm: Algorithm
    encoding: Encoding
    template: Template
    time: SignedTime | None
    id_header: str
    key: KeyForm
    key_prefix: str

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Decide whether one of *secrets* signed this delivery, at a time within the tolerance (P-RAW)."""
        parts = self._parts(delivery.headers)
        if isinstance(parts, Rejected):
            return parts
        candidates = digests(
            [part.removeprefix(self.prefix) for part in parts if part.startswith(self.prefix)],
            encoding=self.encoding,
            size=hashlib.new(self.algorithm).digest_size,
            header=self.header,
            signatures_max=self.signatures_max,
        )
        if isinstance(candidates, Rejected):
            return candidates
        sent = self.time.sent(delivery.headers, parts) if self.time else ""
        if isinstance(sent, Rejected):
            return sent
        content = self._content(delivery, sent)
        if isinstance(content, Rejected):
            return content
        for secret in secrets:
            key = self.key_of(secret.reveal())
            if isinstance(key, bytes) and any_equal(hmac.digest(key, content, self.algorithm), candidates):
                late = self.time.refuse_late(sent, delivery.body, delivery.received_at) if self.time else None
                return late or Verified(secret.label)
        return mismatch(delivery.body)

    def within(self, tolerance_seconds: float, *, setting: str) -> Self:
        """
        Give this scheme with another tolerance.

        Raises:
            ConfigurationError: A tolerance that bounds nothing; or a scheme that signs no time.
        """
        if self.time is None:
            raise ConfigurationError(f"{setting}: no time is signed")
        tolerance_seconds = check_tolerance(tolerance_seconds, setting=setting)
        return replace(self, time=replace(self.time, tolerance_seconds=tolerance_seconds))

    def _parts(self, headers: Headers) -> list[str] | Rejected:
        """Give the parts of the signature header, or of all the headers over which signatures are spread."""
        match self.spread:
            case "one":
                header = only_header(headers, self.header)
                if isinstance(header, Rejected):
                    return header
                return header.split(self.separator) if self.separator else [header]
            case "repeated":
                joined = every_header(headers.all(self.header), name=self.header)
                if isinstance(joined, Rejected):
                    return joined
                parts = [part.strip(" \t") for value in joined for part in value.split(",")]
                return every_header(parts, name=self.header)
            case "numbered":
                numbered = re.compile(re.escape(self.header) + "-[1-9][0-9]{0,2}")
                values = [value for name, value in headers.pairs if numbered.fullmatch(name)]
                return every_header(values, name=f"{self.header}-1")
            case _:
                assert_never(self.spread)

    def key_of(self, secret: str) -> bytes | str:
        """Give the key that *secret* spells, or what is wrong with it, without showing it (P-QUIET)."""
        if not secret.startswith(self.key_prefix):
            return f"does not start with {self.key_prefix}"
        text = secret.removeprefix(self.key_prefix)
        match self.key:
            case "text":
                key = text.encode()
            case "hex":
                if not _HEX_KEY.fullmatch(text):
                    return "is not hex"
                key = bytes.fromhex(text)
            case "base64":
                try:
                    key = base64.b64decode(text, validate=True)
                except (binascii.Error, ValueError):
                    return "is not standard base64, padding included"
            case _:
                assert_never(self.key)
        return key or f"holds nothing after {self.key_prefix}"

    def _content(self, delivery: Delivery, sent: str) -> bytes | Rejected:
        """Give the signed bytes of this delivery; *sent* is the time exactly as it was sent."""
        values: dict[Slot, bytes] = {"body": delivery.body, "timestamp": sent.encode("latin-1")}
        if self.template.has("method"):
            values["method"] = delivery.method.encode("utf-8", "surrogatepass")
        if self.template.has("url"):
            values["url"] = delivery.url.encode("utf-8", "surrogatepass")
        if self.id_header:
            event_id = only_header(delivery.headers, self.id_header, part="id")
            if isinstance(event_id, Rejected):
                return event_id
            values["id"] = event_id.encode("latin-1")
            separator = self.template.after("id")
            if separator and separator in values["id"]:
                # The signed content could be cut in two places; refused, so that one signature stands for one id.
                return Rejected("id_malformed", f"{self.id_header} header malformed: holds the separator")
        return self.template.fill(values)


def scheme_of(
    *,
    header: str,
    spread: Spread = "one",
    signatures_max: int = SIGNATURES_MAX,
    separator: str = "",
    prefix: str = "",
    algorithm: Algorithm = "sha256",
    encoding: Encoding = "hex",
    signed: str = "{body}",
    event_id: str = "",
    timestamp: str = "",
    timestamp_unit: TimeUnit = "s",
    tolerance_seconds: float | None = None,
    key: KeyForm = "text",
    key_prefix: str = "",
) -> Scheme:
    """
    Read a description; the arguments are those of ``Hmac`` and, for providers that spread their signatures, ``Scheme``.

    Raises:
        ConfigurationError: A word that is none of the known ones, or a description that contradicts itself.
    """
    _check_word(algorithm, get_args(Algorithm), setting="Hmac(algorithm=...)")
    _check_word(encoding, get_args(Encoding), setting="Hmac(encoding=...)")
    _check_word(timestamp_unit, get_args(TimeUnit), setting="Hmac(timestamp_unit=...)")
    _check_word(key, get_args(KeyForm), setting="Hmac(key=...)")
    template = template_of(signed, setting="Hmac(signed=...)")
    return Scheme(
        header=header_of(header, setting="Hmac(header=...)"),
        spread=spread,
        signatures_max=signatures_max,
        separator=separator,
        prefix=prefix,
        algorithm=algorithm,
        encoding=encoding,
        template=template,
        time=signed_time_of(
            timestamp,
            unit=timestamp_unit,
            tolerance_seconds=tolerance_seconds,
            in_template=template.has("timestamp"),
            separator=separator,
            bare=template.touches("timestamp"),
        ),
        id_header=_id_header_of(template, event_id),
        key=key,
        key_prefix=key_prefix,
    )


def _check_word(word: str, words: tuple[str, ...], *, setting: str) -> None:
    if word not in words:
        raise ConfigurationError(f"{setting} must be one of {', '.join(words)}")


def _id_header_of(template: Template, event_id: str) -> str:
    if not template.has("id"):
        return ""
    place = place_of(event_id, setting="Hmac(event_id=...)")
    if isinstance(place, HeaderPlace) and template.after("id"):
        return place.name
    raise ConfigurationError(
        "Hmac(signed=...) holds {id}: then event_id must be 'header:...', and a separator must follow {id}"
    )
