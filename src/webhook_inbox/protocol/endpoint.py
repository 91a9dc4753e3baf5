"""Say how one endpoint shall treat its deliveries."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, TypeAlias

from webhook_inbox.errors import ConfigurationError, PayloadError
from webhook_inbox.model.arrival import storable
from webhook_inbox.model.event import Event
from webhook_inbox.model.failure import describe
from webhook_inbox.model.form import payload_of
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, secrets_of
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.handlers import Handlers
from webhook_inbox.sources.source import Source

Mode: TypeAlias = Literal["inline", "queued", "hybrid"]
OrderBy: TypeAlias = str | Callable[[Event], object] | None
DeadHead: TypeAlias = Literal["hold", "skip"]
Redelivered: TypeAlias = Literal["report", "revive"]
Unhandled: TypeAlias = Literal["record", "drop", "refuse"]
Keep: TypeAlias = Literal["body", "digest"]

_ORDER_KEY_MAX = 200
_SECONDS_A_DAY = 86_400.0
_FOR_EVER_SECONDS = 100 * 365 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPlan:
    """
    Hold everything the receive path asks about an endpoint.

    Attributes:
        name: The path segment that providers post to; 1 to 100 letters, digits, ``.``, ``_``, ``~``, ``-``.
        source: Who sends here.
        mode: ``inline``: the handler runs in the receive transaction. ``queued``: recorded, 200, and a worker runs it.
            ``hybrid``: recorded, then run at once in the request; a worker takes over where that fails.
        settings: The inbox's, with this endpoint's overrides.
        unhandled: What becomes of a type without a handler: ``record`` as ignored, ``drop``, or ``refuse`` with 503.
        keep: ``body``: the exact bytes; ``digest``: only the SHA-256 and *keep_fields*, once the event is processed.
        keep_fields: Dotted paths into the payload, for instance ``data.object.id``.
        order_by: What events share to be run one at a time, in order of arrival: a dotted path into the payload, or a
            function of the event; None: no order.
        dead_head: Whether a dead event holds the later ones of its key (``hold``) or lets them pass (``skip``).
        redelivered_dead: Whether a redelivery of a dead event only hears so (``report``) or lets it run again
            (``revive``).
        handlers: What is registered.

    Raises:
        ConfigurationError: What cannot work, at once.
    """

    name: str
    source: Source
    mode: Mode
    settings: Settings
    unhandled: Unhandled = "record"
    keep: Keep = "body"
    keep_fields: tuple[str, ...] = ()
    order_by: OrderBy = None
    dead_head: DeadHead = "hold"
    redelivered_dead: Redelivered = "report"
    handlers: Handlers = field(default_factory=Handlers)
    # What the source was given, and the secrets in it: looked at again only where it was given something else.
    _checked: tuple[object, tuple[Secret, ...]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse what could only fail later."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"endpoint name {self.name!r} is no path segment of letters, digits, '.', '_', '~' and '-'"
            )
        if not isinstance(self.source, Source):
            raise ConfigurationError(
                f"endpoint {self.name}: {type(self.source).__name__} is no source; see webhook_inbox.sources"
            )
        _choice(self.name, "mode", self.mode, ("inline", "queued", "hybrid"))
        _choice(self.name, "unhandled", self.unhandled, ("record", "drop", "refuse"))
        _choice(self.name, "keep", self.keep, ("body", "digest"))
        _choice(self.name, "dead_head", self.dead_head, ("hold", "skip"))
        _choice(self.name, "redelivered_dead", self.redelivered_dead, ("report", "revive"))
        if self.redelivered_dead == "revive" and self.mode == "inline":
            raise ConfigurationError(
                f'endpoint {self.name}: redelivered_dead="revive" needs mode="queued" or "hybrid"; inline has no worker'
            )
        if self.order_by is not None and self.mode != "queued":
            raise ConfigurationError(
                f'endpoint {self.name}: order_by needs mode="queued"; in the request there is no order to keep'
            )
        if self.mode == "inline" and not self.source.redelivers:
            raise ConfigurationError(
                f"endpoint {self.name}: {self.source.provider} does not send again after a failure, "
                'so an inline handler that fails once would lose the event; use mode="queued", or "hybrid"'
            )
        self._check_retention()
        if self.keep_fields and self.keep != "digest":
            raise ConfigurationError(
                f'endpoint {self.name}: keep_fields is for keep="digest"; keep="body" keeps everything'
            )

    def _check_retention(self) -> None:
        """Refuse to forget an event that may still come again: it would be taken for a new one (P-KEEP)."""
        facts, listing, key_days = self.source.facts, self.source.listing, self.settings.key_days
        past = facts.past_events.seconds if facts else None
        windows = {
            "its provider sends again for": facts.retries.seconds if facts else None,
            "its provider can be asked for missed events of": listing.window_seconds if listing else past,
        }
        for what, seconds in windows.items():
            if seconds is not None and key_days < (days := seconds / _SECONDS_A_DAY):
                raise ConfigurationError(
                    f"endpoint {self.name}: key_days is {key_days:g}, but {what} {days:g} days; what is forgotten "
                    "before would have its effect once more"
                )
        if key_days < self.settings.payload_days:
            raise ConfigurationError(
                f"endpoint {self.name}: key_days is {key_days:g} and payload_days {self.settings.payload_days:g}; "
                "payloads are forgotten first"
            )

    @property
    def body_bytes_max(self) -> int:
        """Give the largest body accepted here, in bytes."""
        return self.settings.body_bytes_max or self.source.body_bytes_max

    @property
    def hold_seconds(self) -> float:
        """Give how long a dead event holds the later ones of its order key."""
        return self.settings.hold_seconds_max or _FOR_EVER_SECONDS if self.dead_head == "hold" else 0.0

    def given_secrets(self) -> tuple[Secret, ...] | Callable[..., object]:
        """Give the configured secrets, or the callable that must be asked for each delivery."""
        given = self.source.secrets
        if callable(given):
            return given
        if self._checked is not None and self._checked[0] is given:
            return self._checked[1]
        secrets = self.checked_secrets(given)
        object.__setattr__(self, "_checked", (given, secrets))
        return secrets

    def checked_secrets(self, given: object) -> tuple[Secret, ...]:
        """
        Give what was configured or answered as secrets that may be used.

        Raises:
            ConfigurationError: None, empty, or of the wrong form for this source.
        """
        secrets = secrets_of(given, setting=f"endpoint {self.name}: secrets")
        for secret in secrets:
            self.source.check_secret(secret)
        return secrets

    def order_key(self, event: Event) -> str | None:
        """
        Give what *event* shares with those it must not overtake; None where the endpoint keeps no order, or
        the event names none.

        Raises:
            ConfigurationError: The user's function failed.
        """
        if self.order_by is None:
            return None
        try:
            found = self.order_by(event) if callable(self.order_by) else _at(event.payload, self.order_by)
        except PayloadError:
            return None
        except Exception as error:
            raise ConfigurationError(f"endpoint {self.name}: order_by failed: {describe(error)}") from error
        if found is None or found is _NOWHERE:
            return None
        key = str(found)
        # Keys are indexed; a long one is as good by its digest.
        return (
            key
            if len(key) <= _ORDER_KEY_MAX and key == storable(key)
            else f"sha256:{sha256(key.encode(errors='replace')).hexdigest()}"
        )

    def kept_fields(self, headers: Headers, body: bytes) -> dict[str, object]:
        """Give the fields of the payload that are kept beside its digest; a path that leads nowhere is left out."""
        payload = payload_of(headers, body) if self.keep_fields else None
        found = {path: _at(payload, path) for path in self.keep_fields}
        return {path: value for path, value in found.items() if value is not _NOWHERE}


_NOWHERE = object()


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return _NOWHERE
        value = value[name]
    return value


def _choice(endpoint: str, setting: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ConfigurationError(
            f"endpoint {endpoint}: {setting} is {given!r}; it must be one of {', '.join(allowed)}"
        )
