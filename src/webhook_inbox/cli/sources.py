"""Show the providers that are known by name, and what is known about each: the catalogue, from the classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.options import JsonOption
from webhook_inbox.cli.output import duration, styled, table, tell, tell_json
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.sources.source import Source

_YES_OR_NO = {True: "yes", False: "no", None: "not confirmed"}


def list_sources(
    *,
    markdown: Annotated[
        bool, typer.Option("--markdown", show_envvar=False, help="Print the whole catalogue as Markdown.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """List the providers that are known by name."""
    from webhook_inbox.sources.catalogue import describe, providers

    if json:
        tell_json([describe(each) for each in providers()])
    elif markdown:
        from webhook_inbox.cli.sources_page import page

        print(page(), end="")
    else:
        headings = ("CLASS", "PROVIDER", "ID SIGNED", "SENDS AGAIN", "ANSWER WITHIN", "LISTS PAST EVENTS")
        for line in table(headings, (row(each) for each in providers())):
            tell(line)
    return GOOD


def show_source(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the class or of the provider, in any letter case.")
    ],
    json: JsonOption = False,
) -> int:
    """Show what is known about one provider, and where each statement stands."""
    from webhook_inbox.sources.catalogue import describe

    found = _named(name)
    if json:
        tell_json(describe(found))
        return GOOD
    tell(styled(f"{found.__name__}: {found.facts.title if found.facts else found.provider}", "bold"))
    for heading, text, source in facts_of(found):
        tell(f"{heading:<14}{text}")
        if source:
            tell(f"{'':<14}{styled(source, 'dim')}")
    for weakness in found.facts.weaknesses if found.facts else ():
        tell(f"{'heed':<14}{weakness}")
    return GOOD


def row(source: type[Source]) -> tuple[str, ...]:
    """Give one provider's line of the table."""
    facts = source.facts
    if facts is None:
        return (source.__name__, source.provider, "", "", "", "")
    span = facts.retries.seconds
    again = "no" if not source.redelivers else f"for {_plain(span)}" if span else "yes"
    answer = facts.answer.seconds
    return (
        source.__name__,
        source.provider,
        _YES_OR_NO[source.signed_id],
        again,
        _plain(answer) if answer else _YES_OR_NO[None],
        f"reconcile {_asked(facts.past_events.seconds)}" if source.reconciles else _YES_OR_NO[facts.list_api],
    )


def facts_of(source: type[Source]) -> Iterator[tuple[str, str, str]]:
    """Give heading, text and source of each fact."""
    facts = source.facts
    if facts is None:
        return
    for heading, fact in (
        ("signature", facts.signature),
        ("secret", facts.secret),
        ("event id", facts.event_id),
        ("event type", facts.event_type),
        ("window", facts.window),
        ("handshake", facts.handshake),
        ("answer", facts.answer),
        ("sends again", facts.retries),
        ("order", facts.order),
        ("past events", facts.past_events),
    ):
        yield heading, fact.text or _YES_OR_NO[None], fact.source
    asked = _asked(facts.past_events.seconds)
    yield "reconcile", f"{asked}, with an `api_key`" if source.reconciles else "does not ask", ""


def _asked(seconds: float | None) -> str:
    """Say that ``reconcile`` asks, and how far back where that does not depend on the sender."""
    return f"asks, {_plain(seconds)} back" if seconds else "asks"


def _plain(seconds: float) -> str:
    """Give a round duration without its zeros."""
    return re.sub(r"\.0(?= s$)| 0 (h|min|s)$", "", duration(seconds))


def _named(name: str) -> type[Source]:
    from webhook_inbox.sources.catalogue import providers

    for each in providers():
        if name.lower() in {each.__name__.lower(), each.provider}:
            return each
    known = ", ".join(each.provider for each in providers())
    raise ConfigurationError(f"there is no source {name!r}; there are {known}")
