"""
Take in those events of a provider's list that are not here.

    listed ──► is a handler for it? ──► find_known ──► its content, if the list has it not ──► receive_copies
                not counted              present        out of reach                            recovered, or failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.reconciled import Tally, Unfit
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.asking import Asker, Unanswered, ask_api
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Apart, Flow, once
from webhook_inbox.protocol.receive import receive_copies
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.status import reading
from webhook_inbox.protocol.steps import All, Plan, Rollback
from webhook_inbox.sources.listing import Listed, Listing
from webhook_inbox.sources.source import Identity
from webhook_inbox.telemetry.results import log_result

UNFIT_MAX = 20
_TAKEN_IN = frozenset({Outcome.PROCESSED, Outcome.QUEUED, Outcome.IGNORED, Outcome.DEAD})
_GONE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


@dataclass(slots=True, kw_only=True)
class Recovery:
    """
    Hold what all pages of one list share.

    Attributes:
        endpoint: Which the events are for.
        listing: Of its source.
        inbox: Takes them in.
        asker: Makes a request.
        dry_run: Take in nothing; count as recovered what would be.
        missing: What a dry run has counted: a list may name an event once for each try.
        unfit: Some of those that could not be taken in, filled here.
    """

    endpoint: EndpointPlan
    listing: Listing
    inbox: Receiving
    asker: Asker
    dry_run: bool
    missing: set[tuple[str, str, str]] = field(default_factory=set)
    unfit: list[Unfit] = field(default_factory=list)

    def note(self, listed: Listed, reason: str) -> None:
        """Keep why *listed* was not taken in, of the first few."""
        if len(self.unfit) < UNFIT_MAX:
            self.unfit.append(Unfit(_id_of(listed), reason))


def recover(job: Recovery, listed: Sequence[Listed]) -> Flow[Tally]:
    """
    Take in those of *listed* that are not here.

    Raises:
        InboxError: The database could not be asked which these are.
    """
    wanted = [each for each in listed if _is_wanted(job.endpoint, each)]
    if not wanted:
        return Tally()
    known: frozenset[int] = yield from once(lambda: _known(job, wanted))
    missing = [each for position, each in enumerate(wanted) if position not in known]
    found = Tally(seen=len(wanted), present=len(known))
    if job.dry_run:
        keys = {_key_of(each) for each in missing} - job.missing
        job.missing |= keys
        return replace(found, present=len(wanted) - len(keys), recovered=len(keys))
    ready = []
    for each in missing:
        copy = yield from _with_content(job, each)
        if isinstance(copy, Tally):
            found += copy
        else:
            ready.append(copy)
    # A failing handler takes its transaction with it: inline, each event has one of its own (P-FLOW).
    size = 1 if job.endpoint.mode == "inline" else max(1, len(ready))
    for begin in range(0, len(ready), size):
        found += yield from _admit(job, ready[begin : begin + size])
    return found


def _is_wanted(endpoint: EndpointPlan, listed: Listed) -> bool:
    """Leave what has no effect here; what cannot be read is taken in, to be quarantined."""
    match listed.reading:
        case Identity(event_type=event_type, ignore=ignore):
            return not ignore and bool(endpoint.handlers.matching(event_type))
        case _:
            return True


def _known(job: Recovery, wanted: Sequence[Listed]) -> Plan[frozenset[int]]:
    """Give the positions of those that are here."""
    read = [
        (position, each.reading) for position, each in enumerate(wanted) if isinstance(each.reading, Identity)
    ]
    sql = job.inbox.sql
    yield reading(sql)
    rows = yield All(
        sql.find_known,
        {
            "provider": job.endpoint.source.provider,
            "endpoint": job.endpoint.name,
            "accounts": [identity.account for _, identity in read],
            "environments": [identity.environment for _, identity in read],
            "event_ids": [identity.event_id for _, identity in read],
        },
    )
    yield Rollback()
    return frozenset(read[row[0] - 1][0] for row in rows)


def _with_content(job: Recovery, listed: Listed) -> Flow[Listed | Tally]:
    """Give *listed* with its delivery, or count it as what it is without one."""
    copy: Delivery | None = listed.delivery
    if listed.request is not None:
        answer = yield from ask_api(job.asker, listed.request)
        if isinstance(answer, Unanswered) and answer.status not in _GONE:
            job.note(listed, answer.reason)
            return Tally(failed=1)
        copy = None if isinstance(answer, Unanswered) else job.listing.copy(listed, answer)
    if copy is None:
        job.note(listed, "the provider has not kept its content")
        return Tally(out_of_reach=1)
    return replace(listed, delivery=copy, request=None)


def _admit(job: Recovery, listed: Sequence[Listed]) -> Flow[Tally]:
    copies = [each.delivery for each in listed if each.delivery is not None]
    answer: tuple[EventResult, ...] | Receipt = yield Apart(receive_copies(job.endpoint, copies, job.inbox))
    results = answer.results if isinstance(answer, Receipt) else answer
    if isinstance(answer, Receipt) or len(results) != len(listed):
        reason = answer.reason if isinstance(answer, Receipt) else "one copy held several events"
        for each in listed:
            job.note(each, reason)
        return Tally(failed=len(listed))
    found = Tally()
    for each, result in zip(listed, results, strict=True):
        found += _counted(job, each, result)
    return found


def _counted(job: Recovery, listed: Listed, result: EventResult) -> Tally:
    name = job.endpoint.name
    told = job.endpoint.mode == "hybrid"  # its run has told of the death, in the log and to the hook
    log_result(name, result, dead_is_told=told)
    if result.outcome is Outcome.DEAD and not told:
        job.inbox.running.dead(name, result)
    if result.outcome in _TAKEN_IN:
        return Tally(recovered=1)
    if result.outcome is Outcome.DUPLICATE:
        return Tally(present=1)
    job.note(listed, result.reason or str(result.outcome))
    return Tally(failed=1)


def _key_of(listed: Listed) -> tuple[str, str, str]:
    reading = listed.reading
    return (
        (reading.account, reading.environment, reading.event_id)
        if isinstance(reading, Identity)
        else ("", "", "")
    )


def _id_of(listed: Listed) -> str:
    return listed.reading.event_id if isinstance(listed.reading, Identity) else ""
