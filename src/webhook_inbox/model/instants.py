"""Read the database's times whatever the session's DateStyle and TimeZone say, and those of HTTP whatever they hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(microseconds: int) -> datetime:
    """Give the time that the server told as microseconds since 1970, aware and in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(time: datetime) -> int:
    """Give *time*, which is aware, as microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def http_date(text: str) -> datetime | None:
    """Give the time that an HTTP header spells, aware; None where it spells none."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
