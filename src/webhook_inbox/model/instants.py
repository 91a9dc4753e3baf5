"""Read the server's times whatever the session's DateStyle and TimeZone say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(microseconds: int) -> datetime:
    """Give the time that the server told as microseconds since 1970, aware and in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
