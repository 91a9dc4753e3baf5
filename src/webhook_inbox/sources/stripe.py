"""
Recognise Stripe: snapshot events, thin (v2) events and Connect events, all signed the same way.

Source: docs.stripe.com/webhooks, "Verify webhook signatures manually"; Event object reference (``account``,
``livemode``). Checked against the official SDK, from which this differs on purpose: the tolerance also bounds the
future, only well-formed headers are read, and nothing raises.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, Reader, name_event
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.listing import Accounts, ApiKey
from webhook_inbox.sources.listing_stripe import StripeListing, ThinStripeListing
from webhook_inbox.sources.signature import (
    any_equal,
    digests,
    mismatch,
    only_header,
    outside_tolerance,
    unix_time,
)
from webhook_inbox.sources.source import Reading, Rejected, Source, Unreadable, Verdict, Verified

_DOCS = "https://docs.stripe.com"
_WEBHOOKS = f"{_DOCS}/webhooks"
_UNDELIVERED = f"{_DOCS}/webhooks/process-undelivered-events"
_HEADER = "stripe-signature"
_READER = Reader(("id",), ("type",), ("object",), ("account",), ("context",), ("livemode",), ("created",))
_SNAPSHOT = Places()
_THIN = Places(account="$.context")
_DIGEST_BYTES = sha256().digest_size
_LISTINGS = MappingProxyType({"snapshot": StripeListing, "thin": ThinStripeListing})
_NOT_SECRETS = MappingProxyType(
    {
        "sk_": "a secret API key",
        "rk_": "a restricted API key",
        "pk_": "a publishable API key",
        "we_": "the id of a webhook endpoint",
        "whsec_": "the prefix whsec_ with nothing after it",
    }
)


class Stripe(Source):
    """
    Believe what Stripe signed with one of *secrets*.

    Only ``v1`` counts, in lower-case hex as Stripe writes it. Events of both modes may come to one endpoint: the mode
    is part of the event key, so they never deduplicate each other. Test events that the Dashboard sends under one
    fixed id are one event: the second is a duplicate of the first.

    Args:
        secrets: The endpoint's signing secret, ``whsec_...`` (Workbench, Webhooks, your endpoint; or printed by
            ``stripe listen``); several while one is being rolled; or a callable asked per request. Each endpoint has
            its own, those of Connect included.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
        environment: ``live`` or ``test``: events of the other mode are recorded as ignored and have no effect. None
            takes both, and so does an event that does not say its mode.
        api_key: May read events (a restricted key, ``rk_...``, will do), to find by ``reconcile`` what never arrived;
            or a callable. Its mode is that of the events that are found.
        accounts: For an endpoint of Connect: the accounts to ask for, ``acct_...``; or a callable that gives them.
        event_payload: ``snapshot`` or ``thin``, as Stripe says of the event destination: which of its lists is asked.
        api_base: Where Stripe's API is.

    Raises:
        ConfigurationError: A secret of a wrong form, a tolerance that bounds nothing, another environment.
    """

    provider = "stripe"
    event_id_form = re.compile(r"evt_\S+")
    key_parts = frozenset({"environment"})
    optional_key_parts = frozenset({"account"})  # of Connect, and of thin events
    reconciles = True
    facts = Facts(
        title="Stripe",
        signature=Fact(
            "`Stripe-Signature: t=UNIX,v1=HEX`, HMAC-SHA256 of `t.body`, a `v1` for each live secret",
            _WEBHOOKS,
        ),
        secret=Fact(
            "`whsec_...`, used whole, one for each endpoint; the old one stays valid up to 24 h", _WEBHOOKS
        ),
        event_id=Fact("the body's `id` (`evt_...`), the same on retry and resend", DIRECTORY),
        event_type=Fact("the body's `type`", f"{_DOCS}/api/events/object"),
        window=Fact("300 s in the SDK; each retry is signed anew", "stripe 16.1.0", 300),
        answer=Fact("2xx, a redirect is a failure; no time limit is published", DIRECTORY),
        retries=Fact(
            "up to 3 days with growing pauses; in a sandbox 3 times within hours", _UNDELIVERED, 3 * 86_400
        ),
        order=Fact("not guaranteed, and `created` has whole seconds", DIRECTORY),
        past_events=Fact(
            "`GET /v1/events`, and of thin events `GET /v2/core/events`; 30 days back",
            _UNDELIVERED,
            seconds=30 * 86_400.0,
        ),
        list_api=True,
        weaknesses=(
            "One change can come twice, as two events with ids of their own, or as snapshot and as thin event.",
            "Events through EventBridge or Event Grid carry no signature of Stripe's: this source does not read them.",
        ),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        tolerance_seconds: float = 300,
        environment: Literal["live", "test"] | None = None,
        api_key: ApiKey | None = None,
        accounts: Accounts | None = None,
        event_payload: Literal["snapshot", "thin"] = "snapshot",
        api_base: str = "https://api.stripe.com",
    ) -> None:
        if environment not in (None, "live", "test"):
            raise ConfigurationError("Stripe(environment=...) must be 'live', 'test' or None")
        self.secrets = settle_secrets(self, secrets, setting="Stripe(secrets=...)")
        self.tolerance_seconds = check_tolerance(tolerance_seconds, setting="Stripe(tolerance_seconds=...)")
        self.environment = environment
        if event_payload not in _LISTINGS:
            raise ConfigurationError("Stripe(event_payload=...) must be 'snapshot' or 'thin'")
        if accounts is not None and api_key is None:
            raise ConfigurationError("Stripe(accounts=...) is whom to ask for with an api_key; there is none")
        if api_key is not None:
            listing = _LISTINGS[event_payload]
            self.listing = listing(api_key, api_base=api_base, accounts=accounts, identify=self.identify)

    def check_secret(self, secret: Secret) -> None:
        """Refuse an API key or an id in place of the endpoint's signing secret (its prefix is part of the key)."""
        value = secret.reveal()
        if value.startswith("whsec_") and value != "whsec_":
            return
        kinds = (kind for prefix, kind in _NOT_SECRETS.items() if value.startswith(prefix))
        raise ConfigurationError(
            f"stripe: {secret.label} is {next(kinds, 'no signing secret')}; "
            "the signing secret of a webhook endpoint starts with whsec_"
        )

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Compare every ``v1`` with HMAC-SHA256 of ``t.body`` under each secret; no other version counts (P-RAW)."""
        header = only_header(delivery.headers, _HEADER)
        if isinstance(header, Rejected):
            return header
        parts = _parts(header)
        if isinstance(parts, Rejected):
            return parts
        time_text, signed_at, candidates = parts
        signed = b"%b.%b" % (time_text.encode(), delivery.body)
        for secret in secrets:
            if any_equal(hmac.digest(secret.reveal().encode(), signed, "sha256"), candidates):
                late = outside_tolerance(signed_at, delivery.received_at, self.tolerance_seconds)
                return late or Verified(secret.label)
        return mismatch(delivery.body)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body."""
        return (self._identify(delivery.body),)

    def _identify(self, body: bytes) -> Reading:
        values = _READER.read(body)
        if isinstance(values, Unreadable):
            return values
        event_id, event_type, kind, account, context, livemode, created = values
        thin = kind == "v2.core.event"  # has no account; its context says whose event it is
        environment = _environment(livemode)
        return name_event(
            _THIN if thin else _SNAPSHOT,
            event_id=event_id,
            event_type=event_type,
            account=context if thin else account,
            environment=environment,
            created=created,
            ignore=self._other_mode(environment),
        )

    def _other_mode(self, environment: str) -> str:
        if not environment or self.environment in {None, environment}:
            return ""
        return f"a {environment} event, but this source is set to environment={self.environment!r}"


def _environment(livemode: object) -> str:
    match livemode:
        case True:
            return "live"
        case False:
            return "test"
        case _:
            return ""


def _parts(header: str) -> tuple[str, int, list[bytes]] | Rejected:
    """Split ``t=...,v1=...,v1=...``; give the time as signed, the time as a number, and every well-formed ``v1``."""
    times: list[str] = []
    signatures: list[str] = []
    for item in header.split(","):
        name, equals, value = item.partition("=")
        if not equals:
            return Rejected("signature_malformed", "stripe-signature header malformed")
        if name == "t":
            times.append(value)
        elif name == "v1":
            signatures.append(value)
    if not times:
        return Rejected("timestamp_missing", "stripe-signature header malformed: no t")
    signed_at = unix_time(times[0])
    if signed_at is None or len(times) > 1:
        return Rejected("timestamp_malformed", "stripe-signature header malformed: t is not one unix time")
    candidates = digests(signatures, encoding="hex", size=_DIGEST_BYTES, header=_HEADER)
    if isinstance(candidates, Rejected):
        return candidates
    return times[0], signed_at, candidates
