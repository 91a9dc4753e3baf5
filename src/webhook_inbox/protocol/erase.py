"""
Erase what the payloads of some events have left anywhere, one person's for instance, and keep the events' keys: a
redelivery stays a duplicate.

    list_erasable     a page of what the filter means, with the bytes, which are read as handlers read them
    lock_events       as a worker locks the one that it runs: of two, the second finds another state
    erase_events      bytes, headers, kept fields, evidence, errors, reviews, messages and versions, in one statement
    COMMIT

What is erased is meant no more by the same filter, so a run that is interrupted goes on where it is started again. What
was looked for stands nowhere: not in the audit, not in an error (P-QUIET).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.event_record import EventRecord
from webhook_inbox.model.form import payload_of
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.payload import parse_payload
from webhook_inbox.model.states import State
from webhook_inbox.protocol.look import filter_params
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.operate import Left, Operator, held_by, operating
from webhook_inbox.protocol.steps import All, Commit, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

BATCH_EVENTS = 100  # each with its bytes
_SETTLED = (State.PROCESSED, State.IGNORED)
_UNHELD = tuple(each for each in State if each is not State.LEASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """
    Say what came of it.

    Attributes:
        events: Of how many events it was erased, or would be.
        left: Those that were meant and are as they were.
        unread: In how many bodies nothing could be looked for, since they are no JSON.
    """

    events: int = 0
    left: tuple[Left, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Name one value that is looked for.

    Attributes:
        path: Names of members, from the outermost in.
        text: The value, as JSON writes it but for the quotes of a text.
        number: The number that this is, which may be written otherwise; None: it is none.
    """

    path: tuple[str, ...]
    text: str
    number: Decimal | None

    @classmethod
    def of(cls, path: str, text: str) -> Self:
        """Make one of a dotted path and what shall stand there."""
        try:
            number = _number_of(parse_payload(text.encode(errors="surrogatepass")))
        except PayloadError:
            number = None
        return cls(tuple(path.split(".")), text, number)

    def stands_in(self, payload: object) -> bool:
        """Say whether *payload* has it."""
        return any(self._is(value) for value in values_at(payload, self.path))

    def _is(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.text == json.dumps(value)
        if isinstance(value, str):
            return self.text == value
        # To the last digit, as jsonb compares: of two long ids, floats would make one.
        return self.number is not None and self.number == _number_of(value)


@dataclass(frozen=True, slots=True)
class Searched:
    """
    Hold one event with what is kept of its payloads.

    Attributes:
        event: Where it stands.
        payloads: Each that can be read.
        unread: How many cannot.
        open_review: Whether a person was asked to look at it and has not.
    """

    event: EventRecord
    payloads: tuple[object, ...]
    unread: int
    open_review: bool

    @classmethod
    def of(cls, row: Row) -> Searched:
        """Make one of a row of ``list_erasable``."""
        *columns, headers, body, kept, other_headers, other_bodies, open_review = row
        deliveries = [] if body is None else [(headers, body)]
        deliveries += zip(other_headers, other_bodies, strict=True)
        payloads: list[object] = [] if kept is None else [_unfolded(parse_payload(kept.encode()))]
        unread = 0
        for pairs, content in deliveries:
            try:
                payloads.append(payload_of(Headers(map(tuple, json.loads(pairs))), bytes(content)))
            except PayloadError:
                unread += 1
        return cls(EventRecord.of(columns), tuple(payloads), unread, open_review)

    def matches(self, wanted: Sequence[Wanted]) -> bool:
        """Say whether one payload has every value of *wanted*; see ``erase``."""
        return any(all(each.stands_in(payload) for each in wanted) for payload in self.payloads)


def erase(
    meant: EventFilter,
    wanted: Mapping[str, str],
    by: Operator,
    schema: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Plan[Erased]:
    """
    Erase the payloads of each event that *meant* means and that has the values of *wanted*, ``BATCH_EVENTS`` at a time.

    Args:
        wanted: Values by dotted paths into the payload, all of one payload; an array on the way means each of its
            items, and what is no text counts as JSON writes it, a number in whatever way. Empty: every payload.
        force: Also of those whose effect has not happened, which never run then; that a person has not looked at; or
            whose messages are still to be sent, which never are then.
        dry_run: Only count.
        progress: Told after each commit of how many events it was erased so far.

    Raises:
        StoreError: Batches that were committed stay so; the same call goes on.

    Promises: P-KEEP, P-QUIET.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield operating(sql)
    params = yield from filter_params(meant, sql)
    done, left, unread = 0, list[Left](), 0
    sought = [Wanted.of(path, text) for path, text in wanted.items()]
    while rows := (yield All(sql.list_erasable, {**params, "limit": BATCH_EVENTS})):
        searched = [Searched.of(row) for row in rows]
        unread += sum(each.unread for each in searched) if sought else 0
        found = [each for each in searched if not sought or each.matches(sought)]
        erased = yield from _erase(found, by, sql, force=force, dry_run=dry_run)
        left += [Left(each.event, _why(each, force=force)) for each in found if each.event.row not in erased]
        yield Commit()
        done += len(erased)
        progress(done)
        params["first_row"] = searched[-1].event.row + 1
        yield operating(sql)
    yield Rollback()
    return Erased(events=done, left=tuple(left), unread=unread)


def _erase(
    found: Sequence[Searched], by: Operator, sql: Statements, *, force: bool, dry_run: bool
) -> Plan[frozenset[int]]:
    """Erase those of *found* that can be, in the open transaction; give their rows."""
    if not found:
        return frozenset()
    states = [str(state) for state in (_UNHELD if force else _SETTLED)]
    locked: list[Row] = yield All(
        sql.lock_events, {"rows": [each.event.row for each in found], "from_states": states}
    )
    erased: list[Row] = yield All(
        sql.erase_events,
        {
            "rows": [row[0] for row in locked],
            "force": force,
            "dry_run": dry_run,
            "actor": by.name,
            "reason": by.reason,
        },
    )
    return frozenset(row[0] for row in erased)


def values_at(value: object, names: Sequence[str]) -> Iterator[str | bool | int | float | Decimal]:
    """Give every text, number and truth value at the path *names* below *value*, in each item of an array there."""
    if isinstance(value, list):
        for item in value:
            yield from values_at(item, names)
    elif names and isinstance(value, dict):
        if names[0] in value:
            yield from values_at(value[names[0]], names[1:])
    elif not names and isinstance(value, str | int | float | Decimal):
        yield value


def _number_of(value: object) -> Decimal | None:
    """Give *value* as the number that JSON wrote; None where it is none, or one beyond what can be held."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(str(value))  # a float's own digits: those of its binary value were never written
    return number if number.is_finite() else None


def _unfolded(kept: Mapping[str, object]) -> object:
    """Give kept fields, which stand under their dotted paths, as the payload that they are of."""
    payload: dict[str, object] = {}
    for path, value in kept.items():
        place = payload
        *names, last = path.split(".")
        for name in names:
            inner = place.setdefault(name, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            place[last] = value
    return payload


def _why(searched: Searched, *, force: bool) -> str:
    """Say why the payloads of an event were left."""
    event = searched.event
    if event.state is State.LEASED:
        return held_by(event)
    if force:
        return "somebody else is changing it"
    if event.state not in _SETTLED:
        return f"it is {event.state}, so its effect may be still to come. If it never shall: --force"
    if searched.open_review:
        return "a person was asked to look at it and has not: reviews list; or --force"
    return "a message of it is still to be sent: outbox list; or --force, and it never is"
