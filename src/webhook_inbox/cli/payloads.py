"""Read the files that ``send`` delivers; their bytes are sent as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from webhook_inbox.errors import ConfigurationError, PayloadError
from webhook_inbox.model.payload import parse_payload

_ID_CHARS_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """
    Hold one file.

    Attributes:
        file: Its path as given.
        body: Its bytes.
        event_id: The ``id`` that the payload has; empty where it has none.
    """

    file: str
    body: bytes
    event_id: str

    @property
    def digest(self) -> str:
        """Give the SHA-256 of the bytes in hex."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def signed_id(self) -> str:
        """Give the id for schemes that send one in a header: the payload's own, else one that its bytes determine."""
        own = self.event_id
        plain = own.isascii() and own.isprintable() and own == own.strip() and len(own) <= _ID_CHARS_MAX
        return own if own and plain else f"msg_{self.digest[:32]}"


def read_payloads(paths: Iterable[Path]) -> list[Payload]:
    """
    Read every file; a folder stands for the files in it, by name, without hidden ones.

    Raises:
        ConfigurationError: A path is not there, cannot be read, or is a folder without files.
    """
    return [_read(file) for path in paths for file in _files(path)]


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    try:
        files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    except OSError as error:
        raise ConfigurationError(f"cannot list {path}: {error.strerror}") from error
    if not files:
        raise ConfigurationError(f"there is no file in {path}")
    yield from files


def _read(path: Path) -> Payload:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    return Payload(file=str(path), body=body, event_id=_event_id(body))


def _event_id(body: bytes) -> str:
    try:
        value = parse_payload(body)
    except PayloadError:
        return ""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
