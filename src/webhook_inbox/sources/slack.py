"""
Recognise Slack: events, interactivity and slash commands, all signed as ``v0:timestamp:body``.

    event_callback      JSON; the id is ``event_id``, the type that of the inner event: ``message``, ``app_mention``
    app_rate_limited    JSON without an id: its bytes are the id
    interactivity       a form with JSON in ``payload``: ``block_actions``, ``view_submission``; its bytes are the id
    slash command       a form: ``slash_command``; its bytes are the id, which hold a ``trigger_id`` of their own

Source: docs.slack.dev, "Verifying requests from Slack" and "The Events API".
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.place import BodyPlace, DigestPlace, Fields
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Answer, Reading, Unreadable

_VERIFYING = "https://docs.slack.dev/authentication/verifying-requests-from-slack"
_EVENTS = "https://docs.slack.dev/apis/events-api/"
_FIELDS = Fields(
    (
        BodyPlace(("type",)),
        BodyPlace(("event", "type")),
        BodyPlace(("event_id",)),
        BodyPlace(("team_id",)),
        BodyPlace(("team", "id")),
        BodyPlace(("event_time",)),
        BodyPlace(("command",)),
        BodyPlace(("challenge",)),
        DigestPlace(),
    )
)
_EVENT = Places(event_id="$.event_id", event_type="$.event.type", account="$.team_id")
_OTHER = Places(event_id="digest", event_type="$.type", account="$.team_id")


class Slack(Provider):
    """
    Believe what Slack signed with one of *secrets*.

    The handshake ``url_verification`` is answered with its challenge, once its signature is good. The account is the
    team.

    Args:
        secrets: The app's signing secret; several while one is being rolled; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "slack"
    key_parts = frozenset({"account"})
    scheme = scheme_of(
        header="X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="header:X-Slack-Request-Timestamp",
        tolerance_seconds=300,
    )
    facts = Facts(
        title="Slack",
        signature=Fact("`X-Slack-Signature: v0=HEX`, HMAC-SHA256 of `v0:timestamp:body`", _VERIFYING),
        secret=Fact("text, the app's signing secret", _VERIFYING),
        event_id=Fact(
            "the body's `event_id`; that a retry repeats it is taken for granted by all and stated by none",
            DIRECTORY,
        ),
        event_type=Fact("the inner event's `type`; the outer one is `event_callback`", _EVENTS),
        window=Fact("300 s both ways, `X-Slack-Request-Timestamp`", "slack_sdk 3.48.0", 300),
        handshake=Fact("`url_verification`: the `challenge` with 200", _EVENTS),
        answer=Fact("2xx within 3 s; two redirects are followed", _EVENTS, 3),
        retries=Fact(
            "at once, after 1 min, after 5 min; then hourly for 24 h if Delayed Events is on",
            _EVENTS,
            24 * 3_600,
        ),
        order=Fact("best effort", DIRECTORY),
        past_events=Fact("none", DIRECTORY),
        list_api=False,
        weaknesses=(
            "Slash commands and interactivity want an answer of their own within 3 s: here they only hear 200.",
            "One message can come as several events with ids of their own; a key of your business is the cure.",
            "More than 95 % failures within an hour switch the subscription off.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 300) -> None:
        super().__init__(secrets)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:  # noqa: ARG002 - as Source
        """Give the challenge back."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable) or values[0] != "url_verification":
            return None
        challenge = values[7]
        if not isinstance(challenge, str):
            return Answer(status=400)
        content_type = ("content-type", "text/plain; charset=utf-8")
        return Answer(
            headers=(content_type, ("x-content-type-options", "nosniff")),
            body=challenge.encode(errors="replace"),
        )

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        outer, inner, event_id, team, of_team, created, command, _, digest = values
        if inner is not None or outer == "event_callback":
            return (name_event(_EVENT, event_id=event_id, event_type=inner, account=team, created=created),)
        event_type = outer if outer is not None else command and "slash_command"
        return (name_event(_OTHER, event_id=digest, event_type=event_type, account=team or of_team),)
