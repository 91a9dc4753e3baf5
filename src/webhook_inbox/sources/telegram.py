"""Recognise a Telegram bot's updates by the secret token that comes along; nothing is signed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from webhook_inbox.errors import ConfigurationError, PayloadError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.payload import parse_payload
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.source import Reading, Unreadable, Verdict
from webhook_inbox.sources.token import verify_token

_API = "https://core.telegram.org/bots/api"
_HEADER = "x-telegram-bot-api-secret-token"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,256}")
_PLACES = Places(event_id="$.update_id", event_type="the member beside update_id")


class Telegram(Provider):
    """
    Believe what carries one of *secrets*.

    The type is the one member beside ``update_id``: ``message``, ``callback_query``.

    Args:
        secrets: The ``secret_token`` given to ``setWebhook``; several while one is being rolled; or a callable asked
            per request.

    Raises:
        ConfigurationError: A token that ``setWebhook`` would not take.
    """

    provider = "telegram"
    signed_id = False
    secret_headers = frozenset({_HEADER})
    facts = Facts(
        title="Telegram",
        signature=Fact("none; `X-Telegram-Bot-Api-Secret-Token` carries the secret", _API),
        secret=Fact("1 to 256 of `A-Z a-z 0-9 _ -`, given to `setWebhook`", _API),
        event_id=Fact(
            "the body's `update_id`, rising for each bot; after a week without updates it starts anew at random",
            _API,
        ),
        event_type=Fact("the member beside `update_id`", _API),
        answer=Fact("2xx; no time limit is known", _API),
        retries=Fact("a reasonable number of attempts; no figure is given", _API),
        past_events=Fact(
            "none while a webhook is set; `getWebhookInfo` has the number that wait and the last error", _API
        ),
        list_api=False,
        weaknesses=(
            "Nothing is signed: whoever sees one delivery can make others.",
            "After a quiet week ids start anew at random: a number can come a second time within the key window.",
        ),
    )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what Telegram would not take."""
        if not _TOKEN.fullmatch(secret.reveal()):
            raise ConfigurationError(
                f"telegram: {secret.label} is no secret_token of 1 to 256 of A-Z, a-z, 0-9, _ and -"
            )

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Compare the token with each secret."""
        return verify_token(delivery.headers, _HEADER, secrets)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the update."""
        try:
            update = parse_payload(delivery.body)
        except PayloadError as error:
            return (Unreadable(reason=str(error)),)
        if not isinstance(update, dict):
            return (Unreadable(reason="expected a JSON object"),)
        kinds = [name for name in update if name != "update_id"]
        event_type = kinds[0] if len(kinds) == 1 else None
        return (name_event(_PLACES, event_id=update.get("update_id"), event_type=event_type),)
