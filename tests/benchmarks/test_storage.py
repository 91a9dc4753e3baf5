"""Compare layouts that do the same: each takes every event once, and gives a worker what the product's own do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.server import Database
from benchmarks.storage.claims import explained
from benchmarks.storage.drive import CLAIMED_TOGETHER, GATHERED, RECORDED_TOGETHER, Driver, driving
from benchmarks.storage.layouts import HOT_QUEUE, LAYOUTS, NARROW_STATE, ONE_TABLE, Layout
from tests.fixtures.postgres import PostgresServer

WORKED_OFF = [each for each in LAYOUTS if each.settle]


def by_name(layout: Layout) -> str:
    """Name a test by the layout."""
    return layout.name


@pytest.fixture(scope="module")
def templates(postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """Give the name of a database for each layout, with its tables in it, to copy from."""
    names = {layout.name: postgres.create() for layout in LAYOUTS}
    for layout in LAYOUTS:
        layout.make(Database(postgres.direct_dsn_of(names[layout.name])))
    yield names
    for name in names.values():
        postgres.drop(name)


@pytest.fixture
def driver_of(postgres: PostgresServer, templates: dict[str, str]) -> Iterator[Callable[[Layout], Driver]]:
    """Give a driver on a new database with the tables of a layout."""
    made: list[str] = []
    with ExitStack() as stack:

        def make(layout: Layout) -> Driver:
            made.append(postgres.create(template=templates[layout.name]))
            return stack.enter_context(driving(postgres.direct_dsn_of(made[-1]), layout))

        yield make
    for name in made:
        postgres.drop(name)


def settled(driver: Driver) -> int:
    """Count the events that are there with their bytes, and marked."""
    with driver.session.transaction():
        row = driver.session.execute(driver.layout.settled.encode()).fetchone()
    assert row is not None
    return int(row[0])


def one_batch(driver: Driver) -> list[tuple[int, int]]:
    """Record a batch and claim it: id and token of each event."""
    born = driver.record(0, RECORDED_TOGETHER)
    claims = driver.claim() if driver.layout.claim else [(each, 1) for each in born]
    assert len(claims) == RECORDED_TOGETHER
    return claims


def claimed(driver: Driver) -> list[tuple[object, ...]]:
    """Record a batch, claim it, and give everything that a run needs of it but the moments."""
    driver.record(0, RECORDED_TOGETHER)
    rows = driver.session.execute(driver.layout.claim.encode(), driver.wanted()).fetchall()
    assert len(rows) == RECORDED_TOGETHER
    return [(*row[:10], *row[11:17]) for row in rows]


def test_batches_fill_what_is_gathered() -> None:
    """No batch is smaller than it says."""
    assert GATHERED % RECORDED_TOGETHER == GATHERED % CLAIMED_TOGETHER == 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=by_name)
def test_a_cycle_takes_every_event_once(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """What was recorded is there with its bytes, marked at its first attempt, and every kind of write is charged."""
    driver = driver_of(layout)
    driver.cycle(0, GATHERED)
    assert settled(driver) == GATHERED
    charged = {name for name, written in driver.wal_bytes.items() if written}
    assert charged == {"record"} | ({"claim"} if layout.claim else set()) | (
        {"settle"} if layout.settle else set()
    )


@pytest.mark.parametrize("layout", [HOT_QUEUE, NARROW_STATE], ids=by_name)
def test_a_claim_gives_what_the_product_gives(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """The same columns with the same values: a layout that reads less would be cheaper for nothing."""
    assert claimed(driver_of(layout)) == claimed(driver_of(ONE_TABLE))


@pytest.mark.parametrize("layout", WORKED_OFF, ids=by_name)
def test_another_token_marks_nothing(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """Each layout checks the fencing token, which costs it something."""
    driver = driver_of(layout)
    claims = one_batch(driver)
    with pytest.raises(InvariantError, match="and 0 were marked"):
        driver.settle([(event, token + 1) for event, token in claims])
    assert settled(driver) == 0
    driver.settle(claims)
    assert settled(driver) == RECORDED_TOGETHER


@pytest.mark.parametrize("layout", WORKED_OFF, ids=by_name)
def test_what_is_not_sealed_does_not_commit(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """Each layout has the server refuse a handler's own COMMIT, which costs it something."""
    driver = driver_of(layout)
    claims = one_batch(driver)
    with pytest.raises(psycopg.Error, match="must not commit"), driver.session.transaction():
        driver.mark(claims)
    assert settled(driver) == 0


@pytest.mark.parametrize("layout", WORKED_OFF, ids=by_name)
def test_a_duplicate_is_recorded_once(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """Each layout enforces the event key."""
    driver = driver_of(layout)
    driver.settle(one_batch(driver))
    driver.record(0, RECORDED_TOGETHER)
    assert settled(driver) == RECORDED_TOGETHER
    with driver.session.transaction():
        assert driver.session.execute("SELECT count(*) FROM webhooks.bodies").fetchall() == [
            (RECORDED_TOGETHER,)
        ]


@pytest.mark.parametrize("layout", [ONE_TABLE, HOT_QUEUE], ids=by_name)
def test_a_claim_that_is_explained_is_made(layout: Layout, driver_of: Callable[[Layout], Driver]) -> None:
    """Each takes a batch of its own, reads at least its rows, and finds too few where too few are left."""
    driver = driver_of(layout)
    driver.record(0, 4 * RECORDED_TOGETHER)
    claims = [explained(driver, 0) for _ in range(4 * RECORDED_TOGETHER // CLAIMED_TOGETHER)]
    assert all(each.pages > each.rows >= CLAIMED_TOGETHER and each.ms > 0 for each in claims)
    with pytest.raises(InvariantError, match="were claimed"):
        explained(driver, 0)
