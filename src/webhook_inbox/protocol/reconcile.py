"""
Ask the provider what it has sent, and take in what never arrived (P-FIND).

    begin_walk ──► ask for a page ──► recover, some at a time ──► note_walk ──► the next page ──► ... ──► end_walk
    protocol/walks.py  asking.py          recover.py                 the cursor: whatever ends this, another goes on

Nothing here waits; the runtime drives it as it drives a delivery.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.reconciled import Reconciled, Tally, Walked
from webhook_inbox.protocol.asking import Asker, Unanswered, ask_api
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Ask, Flow, Transact, once
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.recover import Recovery, recover
from webhook_inbox.protocol.walks import Span, Walk, begin_walk, end_walk, note_walk
from webhook_inbox.sources.listing import Asked, Listed, Listing, Misread, Page

# How many events are looked up, and taken in, between two looks at whether the list is still ours to walk.
PART_EVENTS = 25
# What is younger may still be on its way; the next walk comes back for it.
YOUNG_SECONDS = 60.0
LIST_SECONDS_MAX = 3_600.0
_LONG = f"it takes longer than {LIST_SECONDS_MAX:.0f} seconds; a run within an hour goes on from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    Say what to ask for.

    Attributes:
        endpoint: Whose source has a list.
        span: How far back.
        asker: Makes a request.
        dry_run: Whether to take in and remember nothing.
    """

    endpoint: EndpointPlan
    span: Span
    asker: Asker
    dry_run: bool = False

    @property
    def listing(self) -> Listing:
        """
        Give how the provider is asked.

        Raises:
            ConfigurationError: It cannot be.
        """
        source = self.endpoint.source
        if source.listing is None:
            name = type(source).__name__
            raise ConfigurationError(
                f"endpoint {self.endpoint.name}: {name} was given no api_key, or {name} has no list that can be asked"
            )
        return source.listing


def reconcile(question: Question, inbox: Receiving) -> Flow[Reconciled]:
    """
    Take in what never arrived, of every list.

    Raises:
        ConfigurationError: The endpoint's source has no list, or its api_key or accounts are none.
        StoreError: The database is away; what was taken in stays so, and the next run goes on.

    Concurrency: Any number of processes; one at a time walks a list.
    Promises: P-FIND, P-DUP, P-CLOCK, P-QUIET.
    """
    yield Transact(lambda: check_schema(inbox.schema), None)
    name, listing = question.endpoint.name, question.listing
    key = listing.api_key
    if callable(key):
        key = listing.checked_key((yield Ask(key, name)))
    accounts = listing.accounts
    if callable(accounts):
        accounts = yield Ask(accounts, name)
    walks = []
    for account in _checked(accounts, name):
        walks.append((yield from _walk_list(question, str(key), account, inbox)))
    return Reconciled(endpoint=name, walks=tuple(walks))


def _checked(accounts: object, name: str) -> list[str]:
    given = list(accounts) if isinstance(accounts, Iterable) and not isinstance(accounts, str) else [None]
    found = [each for each in given if isinstance(each, str) and each.isascii() and each.isprintable()]
    if len(found) < len(given):
        raise ConfigurationError(f"endpoint {name}: accounts must be several ids of accounts, each a text")
    return list(dict.fromkeys(found))


def _walk_list(question: Question, key: str, account: str, inbox: Receiving) -> Flow[Walked]:
    walk: Walk | None = yield from once(
        lambda: begin_walk(
            question.endpoint.name,
            account,
            holder=inbox.running.worker,
            span=question.span,
            listing=question.listing,
            sql=inbox.sql,
            dry_run=question.dry_run,
        )
    )
    if walk is None:
        return Walked(account=account, error="another process is at it; try again when it is done", busy=True)
    job = Recovery(
        endpoint=question.endpoint,
        listing=question.listing,
        inbox=inbox,
        asker=question.asker,
        dry_run=question.dry_run,
    )
    before = walk.tally
    walk, halt = yield from _walk(job, walk, key)
    if not question.dry_run:
        complete = not halt.reason and not walk.tally.failed
        yield from once(lambda: end_walk(walk, inbox.sql, error=halt.reason, complete=complete))
    return Walked(
        account=account,
        since=walk.since,
        until=walk.began_at,
        tally=walk.tally,
        found=walk.tally - before,
        out_of_reach_seconds=walk.out_of_reach_seconds,
        unfit=tuple(job.unfit),
        error=halt.reason,
        goes_on=halt.goes_on,
    )


@dataclass(frozen=True, slots=True)
class _Halt:
    """Say why a list was left before its end, empty: it was not; and whether that is only because it takes long."""

    reason: str = ""
    goes_on: bool = False


_TAKEN_OVER = _Halt("another process has taken over")


def _walk(job: Recovery, walk: Walk, key: str) -> Flow[tuple[Walk, _Halt]]:
    """Sign in and go from page to page; give where the walk is then, and why it is not at its end, if it is not."""
    shown = yield from _signed_in(job, key)
    if isinstance(shown, Unanswered | Misread):
        return walk, _Halt(shown.reason)
    asked = Asked(key=shown, account=walk.account, since=walk.since, until=walk.began_at)
    return (yield from _walk_pages(job, walk, asked))


def _signed_in(job: Recovery, key: str) -> Flow[str | Unanswered | Misread]:
    """Give what the provider is shown: the key, or the token that it gives for it."""
    request = job.listing.sign_in(key)
    if request is None:
        return key
    answer = yield from ask_api(job.asker, request)
    return answer if isinstance(answer, Unanswered) else job.listing.token(answer)


def _walk_pages(job: Recovery, walk: Walk, asked: Asked) -> Flow[tuple[Walk, _Halt]]:
    until = time.monotonic() + LIST_SECONDS_MAX
    while True:
        answer = yield from ask_api(job.asker, job.listing.page(asked, walk.cursor))
        if isinstance(answer, Unanswered):
            # Where it says no to the cursor, the next walk begins anew.
            return (walk if answer.later else replace(walk, cursor="")), _Halt(answer.reason)
        page = job.listing.read(asked, answer)
        if isinstance(page, Misread):
            return replace(walk, cursor=""), _Halt(page.reason)
        found = yield from _page(job, walk, page)
        if found is None:
            return walk, _TAKEN_OVER
        if page.following and page.following == walk.cursor:
            return replace(walk, cursor=""), _Halt("the list goes round in a circle")
        walk = walk.turned(page.following, found)
        if not page.following:
            return walk, _Halt()
        if time.monotonic() > until:
            return walk, _Halt(_LONG, goes_on=True)
        if not (yield from _held(job, walk)):
            return walk, _TAKEN_OVER


def _page(job: Recovery, walk: Walk, page: Page) -> Flow[Tally | None]:
    """Take in what is missing of *page*; None: the list is another's to walk now."""
    meant = [each for each in page.listed if _is_meant(each, walk)]
    found = Tally()
    for begin in range(0, len(meant), PART_EVENTS):
        found += yield from recover(job, meant[begin : begin + PART_EVENTS])
        if not (yield from _held(job, walk)):
            return None
    return found


def _held(job: Recovery, walk: Walk) -> Flow[bool]:
    if job.dry_run:
        return True
    return (yield from once(lambda: note_walk(walk, job.inbox.sql)))


def _is_meant(listed: Listed, walk: Walk) -> bool:
    if listed.listed_at is None:
        return True
    return walk.since <= listed.listed_at < walk.began_at - timedelta(seconds=YOUNG_SECONDS)
