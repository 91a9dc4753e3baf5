"""Say which extra is missing, before an import fails in the middle of things."""

from __future__ import annotations

from importlib.util import find_spec

from webhook_inbox.errors import ConfigurationError


def require(verb: str, extra: str, *modules: str) -> None:
    """
    Refuse to run *verb* where a module of *extra* is not installed.

    Raises:
        ConfigurationError: Names the command that installs it.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        raise ConfigurationError(
            f"{verb} needs {' and '.join(missing)}: pip install 'webhook-inbox[{extra}]'"
        )
