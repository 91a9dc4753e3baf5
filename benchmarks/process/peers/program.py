"""Read the two commands that every peer has; standard library alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.harness.events import event_body, event_id

__all__ = ["bodies", "event_id", "run"]
CHUNK = 1000


def run(setup: Callable[[str, int], None], work: Callable[[str, dict[str, Any]], None]) -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("setup")
    preparing.add_argument("dsn")
    preparing.add_argument("count", type=int)
    working = commands.add_parser("work")
    working.add_argument("dsn")
    working.add_argument("--set", dest="settings", action="append", default=[], metavar="name=value")
    given = parser.parse_args()
    if given.command == "setup":
        setup(given.dsn, given.count)
    else:
        work(given.dsn, dict(map(_setting, given.settings)))


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, int(value) if value.lstrip("-").isdigit() else value


def bodies(count: int) -> Iterator[list[bytes]]:
    """Give the events to enqueue, some at a time."""
    for first in range(0, count, CHUNK):
        yield [event_body(number) for number in range(first, min(count, first + CHUNK))]
