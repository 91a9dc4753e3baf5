"""Every number that a user may turn: its default, its bounds, its variable, and what is said of a mistake."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from webhook_inbox import Inbox
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.settings import Settings, SettingsGiven
from webhook_inbox.sources import Stripe

DEFAULTS = {field.name: field.default for field in fields(Settings)}
#: Those for which 0 has a meaning of its own.
ZERO = {
    "attempts_max",
    "body_bytes_max",
    "duplicate_wait_seconds",
    "hold_seconds_max",
    "rate_per_second_max",
    "reconcile_hours",
}
NUMBERS = [name for name, default in DEFAULTS.items() if not isinstance(default, bool)]


def test_what_may_be_given_as_keywords_is_what_there_is() -> None:
    """With the same types, so that a type checker sees a misspelt one."""
    assert get_type_hints(SettingsGiven) == get_type_hints(Settings)


def test_the_defaults_are_those_of_the_design() -> None:
    """Design 4.1 holds them stable."""
    design = {
        "lease_seconds": 120,
        "handler_seconds_max": 30,
        "attempts_max": 0,
        "retry_hours": 72,
        "crashes_max": 3,
        "backoff_seconds_max": 3600,
        "poll_seconds": 1,
        "duplicate_wait_seconds": 5,
        "body_bytes_max": 0,
    }
    assert {name: DEFAULTS[name] for name in design} == design


@pytest.mark.parametrize("name", NUMBERS)
def test_a_limit_cannot_be_switched_off_by_accident(name: str) -> None:
    """Neither negative, nor NaN, nor infinite, nor 0 where that means nothing."""
    wrong: list[Any] = [-1, 10**18]
    if isinstance(DEFAULTS[name], float):
        wrong += [float("nan"), float("inf"), -0.5]
    if name not in ZERO:
        wrong.append(0)
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"^{name} is "):
            Settings(**{name: value})
    if name in ZERO:
        assert getattr(Settings().with_overrides({name: 0}), name) == 0
    assert getattr(Settings().with_overrides({name: 7}), name) == 7


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_value_of_another_kind_is_refused_by_name(name: str) -> None:
    """A text is no number, a number no switch, a fraction no whole number."""
    default = DEFAULTS[name]
    wrong: list[Any] = ["7", None, [1]]
    if isinstance(default, bool):
        wrong += [1, 0.0]
    elif isinstance(default, int):
        wrong += [1.5, True]
    else:
        wrong += [True]
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"^{name} is a {type(value).__name__}; it must be "):
            Settings(**{name: value})


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_has_its_variable(name: str) -> None:
    """Its name in capitals; blanks around the value do not matter, and an empty one is none."""
    variable = f"WEBHOOK_INBOX_{name.upper()}"
    default = DEFAULTS[name]
    text, value = (str(not default).upper(), not default) if isinstance(default, bool) else (" 7 ", 7)
    read = Settings.from_environment({variable: text})
    assert getattr(read, name) == value
    assert type(getattr(read, name)) is type(default)
    assert Settings.from_environment({variable: "  "}) == Settings()
    assert {field.name for field in fields(read) if getattr(read, field.name) != DEFAULTS[field.name]} == {
        name
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("0", False),
        ("FALSE", False),
        ("no", False),
        ("off", False),
    ],
)
def test_a_switch_is_read_as_people_write_it(text: str, value: bool) -> None:
    """In any letter case."""
    read = Settings.from_environment({"WEBHOOK_INBOX_PREPARED_STATEMENTS": text})
    assert read.prepared_statements is value


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("CONNECTIONS_MAX", "many", "is no number"),
        ("CONNECTIONS_MAX", "1.5", "is no number"),
        ("LEASE_SECONDS", "2 min", "is no number"),
        ("PREPARED_STATEMENTS", "perhaps", r"is no switch \(use true or false\)"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named_and_its_value_is_not(
    variable: str, text: str, says: str
) -> None:
    """P-QUIET: a value in the wrong place may be a secret."""
    with pytest.raises(ConfigurationError, match=f"^WEBHOOK_INBOX_{variable} {says}$"):
        Settings.from_environment({f"WEBHOOK_INBOX_{variable}": text})


def test_the_environment_is_the_processs_own_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of others do not matter."""
    monkeypatch.setenv("WEBHOOK_INBOX_POLL_SECONDS", "2.5")
    monkeypatch.setenv("WEBHOOK_INBOX_NO_SUCH_SETTING", "x")
    assert Settings.from_environment() == Settings(poll_seconds=2.5)


def test_overrides_change_what_they_name() -> None:
    """They are checked like everything else, and a name that is none is refused with those that are."""
    settings = Settings(poll_seconds=2.0)
    changed = settings.with_overrides({"lease_seconds": 60})
    assert changed == Settings(poll_seconds=2.0, lease_seconds=60)
    assert settings == Settings(poll_seconds=2.0)
    with pytest.raises(
        ConfigurationError, match=r"^no setting is called pol; there are answer_seconds_max, "
    ):
        settings.with_overrides({"pol": 1})
    with pytest.raises(ConfigurationError, match="^lease_seconds is -1; it must be above 0$"):
        settings.with_overrides({"lease_seconds": -1})
    with pytest.raises(ConfigurationError, match="^body_bytes_max is -1; it must be at least 0$"):
        settings.with_overrides({"body_bytes_max": -1})


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("lease_second", "lease_seconds"),
        ("attemps_max", "attempts_max"),
        ("max_attempts", "attempts_max"),
        ("handler_seconds", "handler_seconds_max"),
        ("odrer_by", "order_by"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_is_meant(misspelt: str, meant: str) -> None:
    """As a keyword: what else the function takes counts too."""
    with pytest.raises(
        ConfigurationError, match=f"^no setting is called {misspelt}; did you mean {meant}[?]$"
    ):
        Settings().with_overrides({misspelt: 1}, beside=["order_by", "mode"])


def test_a_misspelt_variable_is_found_and_nobody_elses_is() -> None:
    """An orchestrator's, a newer release's and every one that the command line reads are left alone."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    read = set(re.findall(r"WEBHOOK_INBOX_[A-Z_]+", page))
    assert {"WEBHOOK_INBOX_SERVE_CONCURRENCY_MAX", "WEBHOOK_INBOX_APP"} <= read
    others = {
        "WEBHOOK_INBOX_PORT",
        "WEBHOOK_INBOX_SERVICE_HOST",
        "WEBHOOK_INBOX_PORT_8000_TCP",
        "LEASE_SECOND",
    }
    assert Settings.misspelt(dict.fromkeys(read | others, "1")) == {}
    given = dict.fromkeys(["WEBHOOK_INBOX_LEASE_SECOND", "WEBHOOK_INBOX_MAX_ATTEMPTS"], "1")
    assert Settings.misspelt(given) == {
        "WEBHOOK_INBOX_LEASE_SECOND": "WEBHOOK_INBOX_LEASE_SECONDS",
        "WEBHOOK_INBOX_MAX_ATTEMPTS": "WEBHOOK_INBOX_ATTEMPTS_MAX",
    }


def test_an_inbox_tells_of_misspelt_names(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: a variable is a warning, since an older release may run beside it, and its value is not told."""
    monkeypatch.setenv("WEBHOOK_INBOX_LEASE_SECOND", "canary")
    given: Any = {"odrer_by": "data.object.id"}
    with pytest.raises(ConfigurationError, match="did you mean order_by[?]"):
        Inbox("postgresql://nowhere").endpoint("billing", Stripe("whsec_fake"), **given)
    assert [record.message for record in caplog.records] == [
        "the variable WEBHOOK_INBOX_LEASE_SECOND is read by nobody; did you mean WEBHOOK_INBOX_LEASE_SECONDS?"
    ]
    with pytest.raises(ConfigurationError, match="did you mean schema[?]"):
        Inbox("postgresql://nowhere", schemas="x")  # type: ignore[call-arg]  # that is the mistake
