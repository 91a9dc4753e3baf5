"""Sign the body as it is, in a header; the id and the type of the event may stand in others."""

from __future__ import annotations

import base64
from typing import Any

from webhook_inbox.testing.signers.draft import Draft, Signed, Signer
from webhook_inbox.testing.signing import sign_hmac


def plain(header: str, **options: Any) -> Signer:  # noqa: ANN401 - as sign_hmac
    """Sign the body, and nothing else."""
    return lambda draft: Signed(sign_hmac(draft.body, draft.secret, header, **options), draft.body)


def named(header: str, event_id: str, event_type: str = "", **options: Any) -> Signer:  # noqa: ANN401
    """Sign the body, and name id and type of the event in headers beside it."""

    def sign(draft: Draft) -> Signed:
        kind = ((event_type, draft.event_type),) if event_type and draft.event_type else ()
        return Signed(
            ((event_id, draft.event_id), *kind, *sign_hmac(draft.body, draft.secret, header, **options)),
            draft.body,
        )

    return sign


def github(draft: Draft) -> Signed:
    """Sign as GitHub; of a type such as ``issues.opened`` the action is in the body already."""
    named = (("x-github-event", draft.event_type.partition(".")[0]), ("x-github-delivery", draft.event_id))
    return Signed(
        (*named, *sign_hmac(draft.body, draft.secret, "x-hub-signature-256", prefix="sha256=")), draft.body
    )


def telegram(draft: Draft) -> Signed:
    """Send the secret along, as Telegram does; nothing is signed."""
    return Signed((("x-telegram-bot-api-secret-token", draft.secret),), draft.body)


def postmark(draft: Draft) -> Signed:
    """Send user and password along, as Postmark does; nothing is signed."""
    credentials = base64.b64encode(draft.secret.encode("utf-8")).decode("ascii")
    return Signed((("authorization", f"Basic {credentials}"),), draft.body)
