"""Sign as an ``Hmac`` source is described: by what its user wrote, not by what the source makes of it."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Self

from webhook_inbox.testing.signers.draft import Draft, Signed, Signer, written
from webhook_inbox.testing.signing import HeaderPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Hold what an ``Hmac`` source is described by; its own docstring says what each means."""

    header: str
    algorithm: str
    encoding: str
    prefix: str
    separator: str
    signed: str
    timestamp: str
    timestamp_unit: str
    key: str
    key_prefix: str
    event_id: str
    event_type: str

    @classmethod
    def of(cls, source: object) -> Self:
        """Take it from an ``Hmac``."""
        return cls(**{field.name: getattr(source, field.name) for field in fields(cls)})


def signer_of(source: Description) -> Signer:
    """Give what signs as *source* expects it."""

    def sign(draft: Draft) -> Signed:
        sent_at = _time(source, draft.timestamp)
        body = _with_time(source, draft.body, sent_at)
        slots = {
            b"{body}": body,
            b"{timestamp}": sent_at.encode(),
            b"{id}": draft.event_id.encode(),
            b"{method}": b"POST",
            b"{url}": draft.url.encode(),
        }
        digest = hmac.digest(_key(source, draft.secret), _filled(source.signed, slots), source.algorithm)
        signature = f"{source.prefix}{_spelled(digest, source.encoding)}"
        if source.timestamp.startswith("part:"):
            signature = f"{source.timestamp.removeprefix('part:')}={sent_at}{source.separator}{signature}"
        return Signed((*_beside(source, draft, sent_at), (source.header.lower(), signature)), body)

    return sign


def _filled(template: str, slots: dict[bytes, bytes]) -> bytes:
    """Fill each slot once; what is in a value stays as it is."""
    content, rest = b"", template.encode()
    while rest:
        slot = next((each for each in slots if rest.startswith(each)), None)
        content += rest[:1] if slot is None else slots[slot]
        rest = rest[1 if slot is None else len(slot) :]
    return content


def _time(source: Description, timestamp: int) -> str:
    match source.timestamp_unit:
        case "iso":
            return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case "ms":
            return f"{timestamp}000"
        case _:
            return str(timestamp)


def _with_time(source: Description, body: bytes, sent_at: str) -> bytes:
    """Write the time of the attempt into the body where it is signed there."""
    if not source.timestamp.startswith("$."):
        return body
    payload: Any = json.loads(body)
    *path, last = source.timestamp.removeprefix("$.").split(".")
    place = payload
    for name in path:
        place = place[name]
    place[last] = sent_at if source.timestamp_unit == "iso" else int(sent_at)
    return written(payload)


def _key(source: Description, secret: str) -> bytes:
    text = secret.removeprefix(source.key_prefix)
    if source.key == "base64":
        return base64.b64decode(text)
    return bytes.fromhex(text) if source.key == "hex" else text.encode()


def _spelled(digest: bytes, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(digest).decode("ascii")
    return digest.hex().upper() if encoding == "hex-upper" else digest.hex()


def _beside(source: Description, draft: Draft, sent_at: str) -> HeaderPairs:
    """Give the headers that stand beside the signature: time, id and type, where the description has them there."""
    values = (
        (source.timestamp, sent_at),
        (source.event_id, draft.event_id),
        (source.event_type, draft.event_type),
    )
    return tuple(
        (place.removeprefix("header:").lower(), value)
        for place, value in values
        if place.startswith("header:")
    )
