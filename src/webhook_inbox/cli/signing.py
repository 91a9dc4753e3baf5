"""Declare the options by which a verb is told whose deliveries it signs, once; refuse what does not fit together."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook_inbox.errors import ConfigurationError


def _sources() -> list[str]:
    from webhook_inbox.testing.signers import SIGNERS

    return sorted(SIGNERS)


SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="NAME",
        show_envvar=False,
        autocompletion=_sources,
        help="Whose signature: one of `webhook-inbox sources list`, or svix.",
    ),
]
EventTypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="NAME",
        show_envvar=False,
        show_default=False,
        help="Of the event, for sources that send it in a header: github, shopify, bitbucket, woocommerce.",
    ),
]
SecretOption = Annotated[
    str | None,
    typer.Option(
        "--secret",
        metavar="SECRET",
        envvar="WEBHOOK_INBOX_SECRET",
        show_envvar=False,
        show_default=False,
        help="What the endpoint verifies with. Default: $WEBHOOK_INBOX_SECRET (which is in no list of processes).",
    ),
]


def known_secret(source: str, secret: str | None, event_type: str | None) -> str:
    """
    Give *secret*, with which deliveries of *source* can be signed.

    Raises:
        ConfigurationError: There is no such source, no secret, or no type where the source sends one in a header.
    """
    from webhook_inbox.testing.signers import SIGNERS, TYPE_IN_HEADER

    if source not in SIGNERS:
        raise ConfigurationError(f"there is no source {source!r}; there are {', '.join(sorted(SIGNERS))}")
    if not secret:
        raise ConfigurationError(
            "no secret: set WEBHOOK_INBOX_SECRET to what the endpoint verifies with, or give --secret"
        )
    if source in TYPE_IN_HEADER and not event_type:
        raise ConfigurationError(f"{source} sends the type of an event in a header: give --type")
    return secret
