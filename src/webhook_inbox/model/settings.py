"""Collect every number that a user may turn, with its unit in its name, its default and its environment variable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypedDict, cast

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.spelling import meant_by

ENVIRONMENT_PREFIX = "WEBHOOK_INBOX_"
# Settings that become PostgreSQL's own limits, which are milliseconds in 31 bits.
_BOUNDS = {
    "duplicate_wait_seconds": 2_000_000.0,
    "handler_seconds_max": 2_000_000.0,
    "key_days": 36_500.0,
    "outbox_days": 36_500.0,
    "payload_days": 36_500.0,
    "reconcile_hours": 876_000.0,
    "retry_hours": 876_000.0,
}
# A hundred years in seconds; more is nobody's wish, and infinity no number that an interval can hold.
_LARGEST = 3_153_600_000.0
# What belongs to the process, not to one of its endpoints.
PROCESS_WIDE = frozenset(
    {
        "connection_wait_seconds",
        "connections_max",
        "crashes_max",
        "lease_seconds",
        "outbox_days",
        "poll_seconds",
        "prepared_statements",
        "stop_seconds_max",
        "waiting_max",
    }
)


class SettingsGiven(TypedDict, total=False):
    """Type the settings that may be given as keywords; meanings and defaults are those of ``Settings``."""

    handler_seconds_max: float
    duplicate_wait_seconds: float
    connections_max: int
    lease_seconds: float
    outbox_days: float
    payload_days: float
    key_days: float
    poll_seconds: float
    reconcile_hours: float
    retry_hours: float
    attempts_max: int
    crashes_max: int
    hold_seconds_max: float
    backoff_seconds_max: float
    concurrency_max: int
    rate_per_second_max: float
    batch_events_max: int
    waiting_max: int
    answer_seconds_max: float
    stop_seconds_max: float
    connection_wait_seconds: float
    prepared_statements: bool
    body_bytes_max: int
    body_seconds_max: float
    body_bytes_per_second_min: float
    header_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    Hold the settings of an inbox or, with its overrides, of one endpoint.

    Attributes:
        handler_seconds_max: Seconds one handler may take, or a function that is asked for secrets; also the server-side
            limit of each of a handler's statements and of its pauses between them. A connection that says nothing for
            three seconds longer is given up.
        duplicate_wait_seconds: Seconds a delivery waits for another copy of its event that is in flight; then 503.
        connections_max: Connections per pool; a process that has both ``def`` and ``async def`` handlers has two pools.
        lease_seconds: Seconds until another worker, or relay, may take over from one that gives no sign of life.
        outbox_days: Days that a message stays in the outbox after every destination has confirmed it; what is not sent
            stays.
        payload_days: Days that the bytes and headers of a settled event are kept, from when it was received.
        key_days: Days that a settled event itself is kept: as long, a redelivery of it is a duplicate.
        poll_seconds: Seconds between two looks for due events, or messages, where no notification comes.
        reconcile_hours: Hours between two times that a worker asks the provider what never arrived, where the source
            has an ``api_key``; 0: never.
        retry_hours: Hours from an event's first failure until it is dead.
        attempts_max: Attempts until an event is dead, however early; 0: no limit but ``retry_hours``.
        crashes_max: Workers that die under an event until it is dead.
        hold_seconds_max: Seconds that a dead event holds the later ones of its order key; 0: until an operator acts.
        backoff_seconds_max: Longest delay between two attempts; each is uniform(0, min(this, 2^attempt)).
        concurrency_max: Transactions of one endpoint that a worker process runs at once; of fast ones, four do.
        rate_per_second_max: Events of one endpoint that a worker process begins in a second; 0: no limit.
        batch_events_max: Events of one endpoint that share a transaction when there is a backlog and they are fast; 1:
            none do.
        waiting_max: Deliveries that may wait for the recorder at once; the next hears 503.
        answer_seconds_max: Seconds a hybrid endpoint gives the handler before it answers 200 without it.
        stop_seconds_max: Seconds a worker has to finish what is under way when it is told to stop.
        connection_wait_seconds: Seconds a delivery waits for a free connection; then 503.
        prepared_statements: Let the driver prepare statements on the server, where a connection leads to one; never
            behind a pooler, which may hand out another session for each transaction.
        body_bytes_max: Largest body in bytes; 0 takes the source's own default.
        body_seconds_max: Seconds a body may take to arrive, beyond what its size earns at the minimum rate; then 408.
        body_bytes_per_second_min: Each this many bytes received earn the body one more second.
        header_bytes_max: Largest sum of header names and values in bytes; then 431.
    """

    handler_seconds_max: float = 30.0
    duplicate_wait_seconds: float = 5.0
    connections_max: int = 10
    lease_seconds: float = 120.0
    outbox_days: float = 30.0
    payload_days: float = 30.0
    key_days: float = 90.0
    poll_seconds: float = 1.0
    reconcile_hours: float = 1.0
    retry_hours: float = 72.0
    attempts_max: int = 0
    crashes_max: int = 3
    hold_seconds_max: float = 0.0
    backoff_seconds_max: float = 3600.0
    concurrency_max: int = 10
    rate_per_second_max: float = 0.0
    batch_events_max: int = 50
    waiting_max: int = 1000
    answer_seconds_max: float = 5.0
    stop_seconds_max: float = 25.0
    connection_wait_seconds: float = 3.0
    prepared_statements: bool = True
    body_bytes_max: int = 0
    body_seconds_max: float = 10.0
    body_bytes_per_second_min: float = 65_536.0
    header_bytes_max: int = 32_768

    def __post_init__(self) -> None:
        """Refuse a value that would switch a limit off by accident; let a whole number stand for a fraction."""
        for field in fields(self):
            value, kind = getattr(self, field.name), cast("type[Any]", type(field.default))
            _check_kind(field.name, value, kind)
            zero_allowed = field.name in {
                "attempts_max",
                "body_bytes_max",
                "duplicate_wait_seconds",
                "hold_seconds_max",
                "prepared_statements",
                "rate_per_second_max",
                "reconcile_hours",
            }
            if not value >= 0 or (value == 0 and not zero_allowed):  # not: NaN is neither
                least = "at least" if zero_allowed else "above"
                raise ConfigurationError(f"{field.name} is {value}; it must be {least} 0")
            # Beyond its bound the server refuses the number, at every delivery or at every failure.
            bound = _BOUNDS.get(field.name, _LARGEST)
            if value > bound:
                raise ConfigurationError(f"{field.name} is {value}; it must be at most {bound:g}")
            # 7 days beside 30.0 would be an array of two types, which no driver can send.
            object.__setattr__(self, field.name, kind(value))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """
        Read ``WEBHOOK_INBOX_<NAME>`` for every setting; what is not set keeps its default.

        Raises:
            ConfigurationError: A variable is no number; it is named, its value is not printed.
        """
        values = os.environ if environment is None else environment
        given = {
            field.name: _parsed(ENVIRONMENT_PREFIX + field.name.upper(), text, type(field.default))
            for field in fields(cls)
            if (text := values.get(ENVIRONMENT_PREFIX + field.name.upper(), "").strip())
        }
        return cls(**given)

    @classmethod
    def misspelt(cls, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """
        Give each variable that is nobody's but much like one of ours, and the one that is meant.

        Others are left alone: orchestrators make variables of this prefix too, and so does another release.
        """
        known = [*(field.name.upper() for field in fields(cls)), "DATABASE_URL"]
        given = os.environ if environment is None else environment
        ours = (
            each.removeprefix(ENVIRONMENT_PREFIX) for each in given if each.startswith(ENVIRONMENT_PREFIX)
        )
        return {
            ENVIRONMENT_PREFIX + name: ENVIRONMENT_PREFIX + meant
            for name in sorted(ours)
            if name not in known and (meant := meant_by(name, known))
        }

    def with_overrides(self, given: Mapping[str, Any], *, beside: Iterable[str] = ()) -> Self:
        """
        Give these settings with those in *given* changed.

        Args:
            beside: What else could be meant by a name that is no setting.

        Raises:
            ConfigurationError: A name is no setting, or a value is out of range.
        """
        known = {field.name for field in fields(self)}
        for name in sorted(set(given) - known):
            meant = meant_by(name, [*known, *beside])
            raise ConfigurationError(
                f"no setting is called {name}; "
                + (f"did you mean {meant}?" if meant else f"there are {', '.join(sorted(known))}")
            )
        return replace(self, **given)


def _check_kind(name: str, value: object, kind: type[Any]) -> None:
    """Refuse a text for a number, a fraction for a whole one, and a number for a switch."""
    allowed: tuple[type[Any], ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        wanted = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
        raise ConfigurationError(f"{name} is a {type(value).__name__}; it must be {wanted}")


def _parsed(variable: str, text: str, kind: type[Any]) -> Any:  # noqa: ANN401 - bool, int or float
    try:
        if kind is bool:
            return {
                "1": True,
                "true": True,
                "yes": True,
                "on": True,
                "0": False,
                "false": False,
                "no": False,
                "off": False,
            }[text.lower()]
        return kind(text)
    except (KeyError, ValueError):
        raise ConfigurationError(
            f"{variable} is no {'switch (use true or false)' if kind is bool else 'number'}"
        ) from None
