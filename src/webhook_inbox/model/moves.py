"""
Say which moves there are from state to state: of an event, of a message on its way to one destination, and of a message
until it is routed. Nothing moves otherwise.

Each move is known by the statement that makes it, a file in ``sql/statements``. The statements are compared with these
tables, and so is what they really do while the tests run; ``docs/explanation/states.md`` is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from webhook_inbox.model.message import MessageState, SendState
from webhook_inbox.model.states import State

S = TypeVar("S", State, SendState, MessageState)


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """
    Say what one statement may do to a row's state.

    Attributes:
        by: The statement's name.
        means: When it is made.
        begins: The states in which it finds a row; none where there was no row.
        ends: Those in which it leaves one; none where the row is deleted.
    """

    by: str
    means: str
    begins: tuple[S, ...]
    ends: tuple[S, ...]

    @property
    def pairs(self) -> frozenset[tuple[S | None, S | None]]:
        """Give each (state before, state after); None where there is no row."""
        return frozenset(
            (before, after) for before in self.begins or (None,) for after in self.ends or (None,)
        )


_W, _L, _R = State.WAITING, State.LEASED, State.RETRYING
_P, _I, _D, _Q = State.PROCESSED, State.IGNORED, State.DEAD, State.QUARANTINED

EVENT_MOVES: tuple[Move[State], ...] = (
    Move(
        "record_event",
        "a delivery is recorded inline, with its effect or its verdict",
        (),
        (_P, _I, _D, _Q, _W),
    ),
    Move("record_events", "deliveries are recorded for a worker", (), (_W, _I, _Q)),
    Move(
        "record_leased",
        "a delivery is recorded in hybrid mode, claimed by the process that received it",
        (),
        (_L, _W),
    ),
    Move("claim_events", "a worker claims what is due; attempt and token are raised", (_W, _R), (_L,)),
    Move(
        "settle_claimed",
        "a run is settled under its token, with its effect or by its verdict",
        (_L,),
        (_P, _I, _D),
    ),
    Move("settle_set", "several runs are settled in the transaction that they share", (_L,), (_P,)),
    Move(
        "seal_effect", "one of these came to nothing: its mark is taken back before the commit", (_P,), (_L,)
    ),
    Move(
        "fail_claimed",
        "a run failed, or the handler said NotYet; dead once its time or attempts are over",
        (_L,),
        (_R, _D),
    ),
    Move("give_back_claimed", "a claim is given back unrun, without cost", (_L,), (_W, _R)),
    Move(
        "return_expired", "the worker's lease has ended; dead after too many deaths under it", (_L,), (_R, _D)
    ),
    Move(
        "revive_dead", "its provider sent it again, and the endpoint says that this revives it", (_D,), (_R,)
    ),
    Move("operate_events", "an operator says retry", (_D, _R), (_R,)),
    Move("operate_events", "an operator says retry, of one that has never failed", (_W,), (_W,)),
    Move("operate_events", "an operator says replay; with force also of a processed one", (_I, _P), (_W,)),
    Move(
        "operate_events",
        "an operator says discard, or has read a quarantined one again",
        (_D, _Q, _R, _W, _I),
        (_I,),
    ),
    Move("import_events", "an older receiver has processed it", (), (_P,)),
    Move("erase_events", "its payload is erased; what was to run never does", (_W, _R, _I, _D, _Q), (_I,)),
    Move("erase_events", "its payload is erased, and its effect stays", (_P,), (_P,)),
    Move(
        "rehearse_event",
        "a run is rehearsed, in a transaction that is rolled back",
        (_W, _R, _P, _I, _D),
        (_P,),
    ),
    Move("prune_events", "its key has been kept for long enough; a redelivery is a new event", (_P, _I), ()),
)

_SW, _SL, _SR = SendState.WAITING, SendState.LEASED, SendState.RETRYING
_SS, _SD = SendState.SENT, SendState.DEAD

SEND_MOVES: tuple[Move[SendState], ...] = (
    Move("route_messages", "a message is routed to the destination", (), (_SW,)),
    Move("claim_messages", "a relay claims what is due; attempt and token are raised", (_SW, _SR), (_SL,)),
    Move("claim_trial", "the same, of one alone, while the destination takes nothing", (_SW, _SR), (_SL,)),
    Move("settle_sent", "the destination has confirmed it", (_SL,), (_SS,)),
    Move("settle_unsent", "it is not known to have arrived, or was not tried", (_SL,), (_SW, _SR, _SD)),
    Move("return_sends", "the relay's lease has ended", (_SL,), (_SR, _SD)),
    Move("retry_messages", "an operator says retry", (_SD, _SR), (_SR,)),
    Move("prune_outbox", "all of its destinations confirmed it long ago", (_SS,), ()),
    Move("erase_events", "its payload is erased, with force", (_SW, _SL, _SR, _SS, _SD), ()),
)

_MW, _MR, _MU = MessageState.WAITING, MessageState.ROUTED, MessageState.UNROUTED

MESSAGE_MOVES: tuple[Move[MessageState], ...] = (
    Move("insert_outbox", "a handler emits it, or your own transaction does", (), (_MW,)),
    Move("route_messages", "it is routed, or no route names it", (_MW,), (_MR, _MU)),
    Move("reroute_messages", "a route names it now", (_MU,), (_MW,)),
    Move("retry_messages", "an operator says retry", (_MU,), (_MW,)),
    Move("prune_outbox", "all of its destinations confirmed it long ago", (_MR,), ()),
    Move("erase_events", "its payload is erased before it was published, with force", (_MW, _MR, _MU), ()),
)


def pairs(moves: tuple[Move[S], ...]) -> dict[str, frozenset[tuple[S | None, S | None]]]:
    """Give each statement of *moves* with every (state before, state after) that it may make."""
    return {
        each.by: frozenset[tuple[S | None, S | None]]().union(*(m.pairs for m in moves if m.by == each.by))
        for each in moves
    }
