"""Show what handlers asked a person to look at, and close it."""

from __future__ import annotations

import json as json_module
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.event_page import at, plain
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.operator import OperatorOption, operator
from webhook_inbox.cli.options import AppOption, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import counted, say, styled, table, tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.protocol.reviews import ReviewRecord

LIMIT_MAX = 1000


def list_reviews(
    *,
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", show_envvar=False, help="Those that are resolved, too.")
    ] = False,
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint", metavar="NAME", show_envvar=False, show_default=False, help="Only of this endpoint."
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, max=LIMIT_MAX, show_envvar=False, help="How many at most."
        ),
    ] = 50,
    after: Annotated[
        int, typer.Option("--after", metavar="N", min=0, show_envvar=False, help="Go on after this review.")
    ] = 0,
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """List reviews that are open, oldest first."""
    from webhook_inbox.protocol import reviews

    found = Store(context, app, database, schema).perform(
        lambda name: reviews.list_reviews(
            name, only_open=not everything, endpoint=endpoint, after=after, limit=limit
        )
    )
    following = found[-1].id if len(found) == limit else None
    if json:
        tell_json({"reviews": [_facts(each) for each in found], "after": following})
        return GOOD
    rows = [
        (str(each.id), at(each.created_at), each.endpoint, each.event_id, each.summary, each.resolved_by)
        for each in found
    ]
    headings = ("review", "asked", "endpoint", "event", "summary", "resolved by")
    for line in table(headings, rows, numbers=(0,)) if rows else ():
        tell(line)
    if following is not None:
        say(f"there may be more: --after {following}")
    elif not found:
        say("no review is open" if not everything else "there is no review")
    return GOOD


def show_review(
    *,
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="The review's number in the list.")],
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """Show one review, with the details that the handler gave."""
    from webhook_inbox.protocol import reviews

    found = Store(context, app, database, schema).perform(
        lambda name: reviews.list_reviews(name, review_id=number, only_open=False)
    )
    if not found:
        raise ConfigurationError(f"there is no review {number}")
    (review,) = found
    if json:
        tell_json(_facts(review))
        return GOOD
    tell(styled(visible(review.summary), "bold"))
    tell(f"{'event':<12}{visible(review.event_id)} (row {review.row}), endpoint {visible(review.endpoint)}")
    tell(f"{'asked':<12}{at(review.created_at)}")
    if review.resolved_at is not None:
        tell(
            visible(f"{'resolved':<12}{at(review.resolved_at)} by {review.resolved_by}: {review.resolution}")
        )
    for line in json_module.dumps(review.details, indent=2, ensure_ascii=False).splitlines():
        tell(visible(line))
    return GOOD


def resolve_reviews(
    *,
    context: typer.Context,
    numbers: Annotated[
        list[int], typer.Argument(metavar="N...", min=1, help="The reviews' numbers in the list.")
    ],
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            metavar="TEXT",
            show_envvar=False,
            show_default=False,
            help="What came of it; it is kept.",
        ),
    ] = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """Close reviews that were looked at."""
    from webhook_inbox.protocol import reviews

    who = operator(by, reason)
    closed = Store(context, app, database, schema).perform(
        lambda name: reviews.resolve_reviews(numbers, who, name)
    )
    left = sorted(set(numbers) - closed)
    if json:
        tell_json({"resolved": sorted(closed), "left": left})
    else:
        tell(f"{counted(len(closed), 'review')} resolved")
    for each in left:
        say(f"left as it is: review {each} is not open: see reviews show {each}")
    return BAD if left else GOOD


def _facts(review: ReviewRecord) -> dict[str, Any]:
    return {field.name: plain(getattr(review, field.name)) for field in fields(review)}
