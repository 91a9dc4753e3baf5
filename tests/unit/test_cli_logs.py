"""The service's log holds facts and no secrets, and no record can forge another."""

from __future__ import annotations

import json
import logging

import pytest

from webhook_inbox.cli.logs import JsonLines, TextLines, guard_foreign_loggers, log_config
from webhook_inbox.telemetry.events import EVENT_SETTLED

HOSTILE = 'evt_\x1b[2J\n2026-01-01T00:00:00.000Z INFO webhook_inbox: endpoint x: event "e": processed\u202e'


def record(name: str = "webhook_inbox", message: str = "it is so", **more: object) -> logging.LogRecord:
    """A record as a logger makes it."""
    return logging.makeLogRecord({"name": name, "levelno": 20, "levelname": "INFO", "msg": message, **more})


def failing() -> dict[str, object]:
    """What ``logger.exception`` adds for an error that quotes what it should not."""
    try:
        int("canary: the payload was {...}")
    except ValueError as error:
        return {"exc_info": (type(error), error, error.__traceback__)}
    raise AssertionError


def test_an_events_facts_are_fields_of_its_json(caplog: pytest.LogCaptureFixture) -> None:
    """Endpoint, event id and outcome need no reading of text."""
    with caplog.at_level(logging.INFO, logger="webhook_inbox"):
        EVENT_SETTLED.log("billing", '"evt_1"', "processed", outcome="processed")
    line = json.loads(JsonLines().format(caplog.records[0]))
    assert {key: line[key] for key in ("level", "logger", "event", "endpoint", "event_id", "outcome")} == {
        "level": "info",
        "logger": "webhook_inbox",
        "event": "event_settled",
        "endpoint": "billing",
        "event_id": "evt_1",
        "outcome": "processed",
    }
    assert line["message"] == 'endpoint billing: event "evt_1": processed'
    assert line["time"].endswith("Z")


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
def test_no_event_id_can_forge_a_record(formatter: logging.Formatter) -> None:
    """One record: what follows its first line is indented, and nothing in it is obeyed by a terminal."""
    first, *further = formatter.format(record(message=HOSTILE, event_id=HOSTILE)).split("\n")
    assert first.isprintable()
    assert all(line.startswith("  ") and line.isprintable() for line in further)


@pytest.mark.parametrize("name", ["uvicorn.error", "asyncio", "psycopg.pool", "webhook_inbox"])
@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
def test_an_exceptions_text_is_left_out(formatter: logging.Formatter, name: str) -> None:
    """P-QUIET: its type and place are enough."""
    line = formatter.format(record(name, "Exception in ASGI application", **failing()))
    assert "canary" not in line
    assert "ValueError" in line
    assert "test_cli_logs.py" in line


def test_a_formatter_before_ours_adds_nothing_to_the_json() -> None:
    """A handler of the user's own leaves its time in the record that they share."""
    event = record("webhook_inbox", "oh")
    logging.Formatter("%(asctime)s %(message)s").format(event)
    assert list(json.loads(JsonLines().format(event))) == ["time", "level", "logger", "message"]


def test_a_users_own_loggers_keep_their_tracebacks() -> None:
    """What a user logs is the user's to decide."""
    assert "canary" in TextLines().format(record("shop", "oh", **failing()))


def test_libraries_do_not_quote_dsns_and_queries(caplog: pytest.LogCaptureFixture) -> None:
    """The pool's reason is told in our words; an access line loses its query, which may hold a token."""
    guard_foreign_loggers()
    guard_foreign_loggers()
    error = OSError('could not translate host name "canary@db"')
    logging.getLogger("psycopg.pool").warning("error connecting in %r: %s", "webhook-inbox", error)
    with caplog.at_level(logging.INFO, logger="uvicorn.access"):
        logging.getLogger("uvicorn.access").info(
            '%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "POST", "/billing?token=canary", "1.1", 200
        )
    assert [each.getMessage() for each in caplog.records] == [
        "no connection to the database: the host's name is not known",
        '127.0.0.1:1 - "POST /billing HTTP/1.1" 200',
    ]


def test_the_access_log_is_off_unless_asked_for() -> None:
    """And the log level is our own logger's alone."""
    off, on = (log_config("text", "debug", access_log=asked)["loggers"] for asked in (False, True))
    assert (off["uvicorn.access"]["level"], on["uvicorn.access"]["level"]) == ("CRITICAL", "INFO")
    assert off["webhook_inbox"]["level"] == "DEBUG"
