"""Write a small app to start from."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.output import PROGRAM, say, tell, visible
from webhook_inbox.errors import ConfigurationError

_SUFFIX = ".txt"  # they are texts here: no tool shall take them for modules of ours


def new(
    *,
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where; made if it is not there, refused if it is not empty."),
    ],
) -> int:
    """
    Write a small app into DIR: one source, one handler, its table, tests, settings.

    Its README says how to run it. Nothing is installed, and nothing else is touched.
    """
    _refuse_used(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for template in _templates():
        name = template.name.removesuffix(_SUFFIX)
        with (directory / name).open("x", encoding="utf-8") as file:
            file.write(template.read_text(encoding="utf-8"))
        tell(visible(str(directory / name)))
    say(f"next: cd {visible(str(directory))}, and what its README.md says; or at once:")
    say(f"  STRIPE_WEBHOOK_SECRET=whsec_fake_for_trying_only {PROGRAM} dev app:inbox")
    return GOOD


def _templates() -> list[Traversable]:
    folder = files("webhook_inbox.cli").joinpath("new_app")
    return sorted(
        (each for each in folder.iterdir() if each.name.endswith(_SUFFIX)), key=lambda each: each.name
    )


def _refuse_used(directory: Path) -> None:
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigurationError(f"{directory} is not empty; name a folder that is, or one that is not there")
    if directory.exists() and not directory.is_dir():
        raise ConfigurationError(f"{directory} is a file; name a folder")
