"""Judge a database and the endpoints of an app: what makes a promise untrue, or will on a bad day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from webhook_inbox.model.finding import Finding, Weight
from webhook_inbox.model.message import SendState
from webhook_inbox.protocol.database_checks import (
    connection_findings,
    schema_findings,
    server_findings,
    table_findings,
    timeout_findings,
)
from webhook_inbox.protocol.doctor import Contents, Health
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.status import UNPROCESSED, Backlog

SECRET_CHARACTERS_MIN = 16
# Whole words: chance spells any of these somewhere in a long random value.
_PLACEHOLDER = re.compile(
    r"(?<![a-z0-9])(change[-_]?me|dummy|example|fake|placeholder|replace[-_]?me|your[-_]?secret)(?![a-z0-9])",
    re.IGNORECASE,
)


def diagnose(health: Health, plans: Sequence[EndpointPlan], *, processes: int = 1) -> tuple[Finding, ...]:
    """
    Give what is found, what is wrong first.

    Args:
        plans: The endpoints of the app.
        processes: How many of them receive and work at once.
    """
    found: Iterable[Finding] = chain(
        server_findings(health.server),
        timeout_findings(health.server, plans),
        connection_findings(health.server, plans, processes),
        schema_findings(health),
        table_findings(health.tables) if health.tables else (),
        _contents(health.contents, plans) if health.contents else (),
        chain.from_iterable(map(_endpoint, plans)),
    )
    return by_weight(found)


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by what matters most; within a weight the order stays."""
    return tuple(sorted(findings, key=lambda each: list(Weight).index(each.weight)))


def _contents(contents: Contents, plans: Sequence[EndpointPlan]) -> Iterator[Finding]:
    waiting = [each.endpoint for each in contents.backlog.endpoints if each.count(*UNPROCESSED)]
    if waiting and not contents.worked:
        yield Finding(
            name="no_worker",
            weight=Weight.WRONG,
            what=f"Events wait at {', '.join(waiting)}, and no worker lives.",
            why="They were answered 2xx, so their providers do not send them again.",
            remedy="Start webhook-inbox worker APP.",
        )
    yield from _endpoints_held(contents.backlog, {plan.name for plan in plans})
    yield from _outbox(contents)
    yield from _partitions(contents)


def _endpoints_held(backlog: Backlog, known: set[str]) -> Iterator[Finding]:
    for paused in backlog.paused:
        yield Finding(
            name="paused",
            weight=Weight.RISKY,
            what=f"Endpoint {paused.name} is paused{' by ' + paused.paused_by if paused.paused_by else ''}.",
            why="Deliveries are taken in, and none has its effect.",
            remedy=f"webhook-inbox endpoints resume {paused.name}",
        )
    if ignored := [
        f"{each.event_type} at {each.endpoint}" for each in backlog.unhandled if each.endpoint in known
    ]:
        yield Finding(
            name="unhandled",
            weight=Weight.NOTE,
            what=f"Ignored for want of a handler: {', '.join(ignored)}.",
            why="A type that is misspelt in on(...) shows here.",
            remedy="Add a handler, then webhook-inbox events replay; or have the provider not send them.",
        )


def _outbox(contents: Contents) -> Iterator[Finding]:
    for state in (SendState.DEAD, SendState.UNROUTED):
        if number := contents.backlog.outbox_counts.get(state, 0):
            yield Finding(
                name=f"outbox_{state}",
                weight=Weight.WRONG,
                what=f"{number} messages of the outbox are {state}.",
                why="Nobody is told of them until an operator acts.",
                remedy=f"webhook-inbox outbox list --state {state}, then outbox retry.",
            )


def _partitions(contents: Contents) -> Iterator[Finding]:
    if contents.in_default or contents.days_ahead < 3:  # noqa: PLR2004 - as many as the statement looks for
        yield Finding(
            name="partitions",
            weight=Weight.RISKY,
            what="Partitions of bodies were not made ahead, or events of these days are in bodies_default.",
            why="What is there is never dropped by the day, so pruning takes long.",
            remedy="Run webhook-inbox migrate APP, and keep a worker running: it makes them.",
        )


def _endpoint(plan: EndpointPlan) -> Iterator[Finding]:
    if not list(plan.handlers):
        yield Finding(
            name="no_handlers",
            weight=Weight.RISKY,
            what=f"Endpoint {plan.name} has no handler.",
            why=f"Its events have no effect (unhandled={plan.unhandled!r}).",
            remedy="Register one with on(...), in a module that is imported with the app.",
        )
    if not plan.source.signed_id:
        facts = plan.source.facts
        weaknesses = " ".join(f"{each.rstrip('.')}." for each in facts.weaknesses) if facts else ""
        yield Finding(
            name="signed_id",
            weight=Weight.NOTE,
            what=f"At endpoint {plan.name} the signature of {plan.source.provider} does not cover the event id, "
            "or not the whole body.",
            why=weaknesses or "Who has seen one delivery could send its body under another id.",
            remedy="The id decides what is a duplicate; another body under a known id is kept as evidence and has "
            "no effect. Watch conflicts in webhook-inbox status.",
        )
    yield from _secrets(plan)


def _secrets(plan: EndpointPlan) -> Iterator[Finding]:
    """Judge the secrets that are known; those that a callable gives are asked for at each delivery."""
    given = plan.given_secrets()
    secrets = () if callable(given) else given
    for secret in secrets:
        sample = _PLACEHOLDER.search(secret.reveal()) is not None
        if sample or len(secret.reveal()) < SECRET_CHARACTERS_MIN:
            flaw = (
                "looks like a placeholder"
                if sample
                else f"is shorter than {SECRET_CHARACTERS_MIN} characters"
            )
            yield Finding(
                name="secret",
                weight=Weight.WRONG if sample else Weight.RISKY,
                what=f"{secret.label} of endpoint {plan.name} {flaw}.",
                why="Who guesses it can have any event believed.",
                remedy="Set the one that the provider shows, or a long random one where you choose it.",
            )
    if len(secrets) > 1:
        yield Finding(
            name="several_secrets",
            weight=Weight.NOTE,
            what=f"Endpoint {plan.name} believes any of {', '.join(each.label for each in secrets)}.",
            why="A secret that was replaced is believed for as long as it stands here.",
            remedy="Column secret_label of webhooks.inbox says which have signed lately; take away what signs no more.",
        )
