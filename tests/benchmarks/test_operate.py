"""A look counts only where it found something, and forgetting only where all that is old is gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.operate import looks, prune


@pytest.fixture
def bench(empty_database: str) -> Bench:
    """A quick run on a database of the test's, which stands for the template and its copy."""

    class OneDatabase:
        def template(self, name: str, fill: Callable[[Database], None]) -> str:
            fill(Database(empty_database))
            return name

        def database(self, template: str) -> Any:
            return nullcontext(Database(empty_database))

    server: Any = OneDatabase()
    return Bench(server, 0.5, quick=True)


def test_every_look_has_a_figure(bench: Bench) -> None:
    """The command line's plans, in an inbox that has something for each of them."""
    figures = looks.measure(10_000, bench)
    assert set(figures) == set(looks._looks(10_000))
    assert min(figures.values()) > 0


def test_a_look_that_finds_nothing_is_no_figure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the fastest of all."""
    monkeypatch.setattr(looks, "DAYS", 10)  # nothing is as old as some looks ask for
    with pytest.raises(InvariantError, match="list_day_ms: nothing was found"):
        looks.measure(10_000, bench)


def test_forgetting_is_timed_until_nothing_old_is_left(
    bench: Bench, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside deliveries, all of which are acknowledged and there."""
    monkeypatch.setattr(prune, "WARM_UP_SECONDS", 0.1)
    figures = prune.measure(bench, pruning=True)
    assert min(figures.values()) > 0
    delivered = round((0.1 + bench.seconds) * prune.PER_SECOND)
    assert Database(empty_database).value("SELECT count(*) FROM webhooks.inbox") == delivered
