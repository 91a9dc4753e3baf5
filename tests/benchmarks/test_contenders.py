"""Hold the list of queues that are measured to what is in the repository."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.harness.environments import PACKAGE_JSON, REQUIREMENTS
from benchmarks.harness.events import event_body, event_id
from benchmarks.harness.processes import ROOT
from benchmarks.process.business import ACCOUNTS, NUMBERED, PERCENT, PERCENT_SET, Booking, set_params
from benchmarks.process.contenders import CONTENDERS, PEERS, Contender

PROGRAMS = ROOT / "benchmarks" / "process" / "peers"


def by_name(contender: Contender) -> str:
    """Name a test by the contender."""
    return contender.name


@pytest.mark.parametrize("contender", CONTENDERS, ids=by_name)
def test_a_contender_has_its_program(contender: Contender) -> None:
    """Each contender names a file that is there, in the language of its runtime."""
    ending = ".mjs" if contender.runtime == "node" else ".py"
    assert (PROGRAMS / f"{contender.program}{ending}").is_file()


@pytest.mark.parametrize("contender", PEERS, ids=by_name)
def test_a_peer_is_pinned_and_its_setting_has_a_source(contender: Contender) -> None:
    """Each peer's package has one exact version, and its setting says where its documentation leads to it."""
    if contender.runtime == "node":
        pinned = json.loads(PACKAGE_JSON.read_text())["dependencies"]
        assert re.fullmatch(r"\d+\.\d+\.\d+", pinned[contender.distribution])
    else:
        assert re.search(rf"^{contender.distribution}==[\d.]+", REQUIREMENTS.read_text(), re.MULTILINE)
    assert contender.source


def test_names_are_unique() -> None:
    """``--only`` finds one contender by a name."""
    names = [each.name for each in CONTENDERS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("numbered", "percent"), list(zip(NUMBERED, PERCENT, strict=True)))
def test_a_statement_takes_its_parameters_in_order_and_once(numbered: str, percent: str) -> None:
    """So both notations mean the same, and every driver runs the same statement."""
    places = re.findall(r"\$(\d)", numbered)
    assert places == [str(place) for place in range(1, len(places) + 1)]
    assert percent.count("%s") == len(places)


def test_the_effect_has_as_many_parameters_as_the_statements_take() -> None:
    """One event and a set of events fill the places of their statements."""
    booking = Booking.of(json.loads(event_body(7)))
    assert booking.event_id == event_id(7)
    assert 0 <= booking.account_id < ACCOUNTS
    assert [len(params) for params in booking.params] == [statement.count("%s") for statement in PERCENT]
    columns = set_params([booking, booking])
    assert [len(params) for params in columns] == [statement.count("%s") for statement in PERCENT_SET]
