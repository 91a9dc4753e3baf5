"""The fault points are all there are: every step of every receive plan has one before and one after, and is walked."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from collections.abc import Iterator
from types import FrameType, GeneratorType, ModuleType

import pytest

from tests.faults import asgi
from tests.faults.app import make_inbox
from tests.faults.bench import Bench
from tests.faults.paths import CASE_IDS, CASES, Path, stripe_letter
from tests.faults.rivals import PointHolder, rival_of
from tests.faults.test_kill_points import Walk
from webhook_inbox.drivers.walk import Walk as PlanWalk
from webhook_inbox.protocol import migrate, record, recording, work
from webhook_inbox.testing.points import Passing, PointRecorder

#: The plans that a delivery runs: all of what records it, and of ``migrate`` the look at the schema.
RECEIVE_PLANS: tuple[tuple[ModuleType, frozenset[str]], ...] = (
    (record, frozenset()),
    (recording, frozenset()),
    (work, frozenset()),
    (migrate, frozenset({"schema_status", "_applied", "check_schema"})),
)


def yields() -> set[tuple[str, int]]:
    """Every place in the receive plans where a step is asked for: (function, line), read from their source."""
    found = set()
    for module, chosen in RECEIVE_PLANS:
        for function in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(function, ast.FunctionDef) and (not chosen or function.name in chosen):
                found |= {
                    (function.name, node.lineno) for node in ast.walk(function) if isinstance(node, ast.Yield)
                }
    return found


def place_of_step() -> tuple[str, int]:
    """Where the plan stands whose step is about to be performed; called from a probe."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), PlanWalk):
        frame = frame.f_back
    assert frame is not None, "no plan is being walked"
    plan = frame.f_locals["self"]._plan
    while isinstance(plan.gi_yieldfrom, GeneratorType):
        plan = plan.gi_yieldfrom
    return plan.gi_code.co_name, plan.gi_frame.f_lineno


def in_process(
    path: Path, kind: str, bench: Bench, names: Iterator[int]
) -> tuple[tuple[Passing, ...], set[tuple[str, int]]]:
    """Walk *path* in this process: the passings of its first attempt, and the places its steps were asked from."""
    recorder = PointRecorder()
    places: set[tuple[str, int]] = set()

    room = bench.room / "in-process"
    holder = PointHolder(room)

    def probe(point: str) -> None:
        recorder(point)
        holder(point)
        if point.endswith(".before") and not point.startswith(("answer.", "handler.")):
            places.add(place_of_step())

    async def walk() -> tuple[Passing, ...]:
        inbox = make_inbox(bench.dsn, probe=probe)
        app = inbox.asgi()
        story = path.make(kind, f"in_process_{next(names)}")
        async with inbox.running():
            if not path.fresh:
                await asgi.deliver(app, stripe_letter(f"evt_warm_{next(names)}", "test.paid", kind))
            for letter in story.before:
                assert (await asgi.deliver(app, letter)).heard
            recorder.take()
            if story.held_at is not None:
                holder.arm(story.held_at)
            with rival_of(bench.dsn, story, room):
                answer = await asgi.deliver(app, story.letter, **story.first)
        assert answer.status == path.first_status
        return recorder.take()

    passings = asyncio.run(walk())
    return passings, places


@pytest.mark.parametrize(("path", "kind"), CASES, ids=CASE_IDS)
def test_a_server_passes_the_points_that_its_plans_have(path: Path, kind: str, bench: Bench) -> None:
    """What is recorded from the plans in this process and what a server passes is the same, in the same order."""
    names = iter(range(1_000))
    expected, _ = in_process(path, kind, bench, names)
    with bench.servers(record=True) as (server,):
        assert Walk(path, kind, bench, server, names).passings() == expected


def test_no_step_of_a_receive_plan_is_without_a_point(bench: Bench) -> None:
    """The paths together ask for a step at every ``yield`` of the receive plans: nothing is left out by choice."""
    names = iter(range(1_000))
    walked: set[tuple[str, int]] = set()
    points: set[str] = set()
    for path, kind in CASES:
        passings, places = in_process(path, kind, bench, names)
        walked |= places
        points |= {passing.point for passing in passings}
    assert len(yields()) > 15
    assert yields() - walked == set()
    assert {point.removesuffix(".before") for point in points if point.endswith(".before")} == {
        point.removesuffix(".after") for point in points if point.endswith(".after")
    }
    for expected in (
        "check_schema.migrations_applied",
        "record_one.begin",
        "record_one.record_event",
        "record_one.run",
        "record_one.seal_effect",
        "record_one.find_event",
        "record_one.record_conflict",
        "record_one.insert_review",
        "record_one.rollback",
        "record_one.commit",
        "record_batch.savepoint",
        "record_batch.release",
        "record_batch.rollback_to",
        "record_batch.commit",
        "handler.first",
        "handler.emit",
        "answer",
    ):
        assert {f"{expected}.before", f"{expected}.after"} <= points
