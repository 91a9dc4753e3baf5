"""
Write the service's log to stderr, a line a record for people or a JSON object a record for machines.

No line holds what an exception of a library says: it may quote a payload or a DSN. It says which, and where (P-QUIET).
"""

from __future__ import annotations

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

from webhook_inbox.cli.database import POOL_LOGGER, reason
from webhook_inbox.cli.output import visible
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.failure import describe

LogFormat: TypeAlias = Literal["text", "json"]
_LEVELS = ("debug", "info", "warning", "error")
_OURS = ("asyncio", "psycopg", "uvicorn", "webhook_inbox")
# The last four are what other formatters, uvicorn and newer Pythons add to a record.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {
    "asctime",
    "color_message",
    "message",
    "taskName",
}


def known(form: str, level: str) -> LogFormat:
    """
    Give *form* as what it is.

    Raises:
        ConfigurationError: There is no such form, or no such level.
    """
    _one_of("--log-level", level, _LEVELS)
    _one_of("--log-format", form, get_args(LogFormat))
    return "json" if form == "json" else "text"


def set_up_logging(form: LogFormat, level: str) -> None:
    """Write the log of this process to stderr, but leave what the user's module has set up as it is."""
    if not logging.getLogger().handlers:
        logging.config.dictConfig(log_config(form, level, access_log=False))
    guard_foreign_loggers()


def log_config(form: LogFormat, level: str, *, access_log: bool) -> dict[str, Any]:
    """Give the set-up for ``logging.config.dictConfig``: everything to stderr, in *form*."""
    formatter = TextLines if form == "text" else JsonLines
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            "webhook_inbox": {"level": level.upper()},
            "uvicorn.error": {"level": "WARNING"},
            "uvicorn.access": {"level": "INFO" if access_log else "CRITICAL"},
        },
    }


def guard_foreign_loggers() -> None:
    """Keep out of the log what libraries quote: parts of a DSN, and the query of a URL, which may hold a token."""
    logging.getLogger(POOL_LOGGER).addFilter(_without_dsn)
    logging.getLogger("uvicorn.access").addFilter(_without_query)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{option} is {value!r}; it is one of {', '.join(allowed)}")


def _without_dsn(record: logging.LogRecord) -> bool:
    for error in record.args if isinstance(record.args, tuple) else ():
        if isinstance(error, Exception):
            record.msg, record.args = "no connection to the database: %s", (reason(error),)
            break
    return True


def _without_query(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(each.partition("?")[0] if isinstance(each, str) else each for each in record.args)
    return True


class TextLines(logging.Formatter):
    """Write ``2026-01-31T12:00:00.000Z INFO webhook_inbox: endpoint billing: event "evt_1": processed``."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one record; lines after its first are indented, so that no record can forge another."""
        head = f"{_time(record)} {record.levelname} {record.name}: "
        return "\n  ".join(visible(line) for line in (head + _text(record)).splitlines())


class JsonLines(logging.Formatter):
    """Write an object with ``time``, ``level``, ``logger``, ``message``, and the record's own attributes."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one record."""
        own = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record),
            **own,
        }
        return json.dumps(line, default=lambda value: type(value).__name__)


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _text(record: logging.LogRecord) -> str:
    message = record.getMessage()
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return message
    if record.name.partition(".")[0] in _OURS:
        failure = describe(error)
        return "\n".join([message.rstrip(), failure.type, *failure.frames])
    return f"{message}\n{logging.Formatter().formatException((type(error), error, error.__traceback__))}"
