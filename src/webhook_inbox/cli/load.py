"""Find the user's ``Inbox`` by its ``module:attribute``, and say in a few lines why it is not there."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from functools import reduce
from pathlib import Path
from types import ModuleType

from webhook_inbox.cli.misnamed import misnamed_argument
from webhook_inbox.errors import ConfigurationError, InboxError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.failure import users_frames

# Names of modules, variables and attributes, or what a program says on purpose as it ends; anything else may quote a
# value, as a settings library does.
_TEXT_IS_PLAIN = (AttributeError, ImportError, InboxError, KeyError, NameError, SystemExit)
_FRAMES_MAX = 5
_FORM = "module:attribute, for instance billing.app:inbox"


def load_inbox(reference: str | None) -> Inbox:
    """
    Import what *reference* names, with the current folder on the path as for ``python -m``.

    Where ``DJANGO_SETTINGS_MODULE`` names settings, Django is set up first: what imports models needs that.

    Raises:
        ConfigurationError: It names nothing, or no Inbox; where the import failed, shows where in the user's code.
    """
    module_name, attribute = _parted(reference)
    module = _import(module_name)
    try:
        found: object = reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise ConfigurationError(
            f"module {module_name!r} has no attribute {attribute!r}{_inboxes_of(module)}"
        ) from None
    if not isinstance(found, Inbox):
        kind = type(found).__name__
        article = "an" if kind[0] in "AEIOU" else "a"
        raise ConfigurationError(f"{reference} is {article} {kind}, not an Inbox{_inboxes_of(module)}")
    return found


def refuse_absent(reference: str | None) -> None:
    """
    Refuse a *reference* to a module that is nowhere, without running any of the user's code.

    Raises:
        ConfigurationError: As ``load_inbox``.
    """
    root, _, _ = _parted(reference)[0].partition(".")
    here = _here_on_path()
    if root not in sys.modules and importlib.util.find_spec(root) is None:
        raise _absent(root, here)


def _parted(reference: str | None) -> tuple[str, str]:
    if not reference:
        raise ConfigurationError(f"no APP given: name your Inbox as {_FORM}, or set WEBHOOK_INBOX_APP")
    module_name, _, attribute = reference.partition(":")
    if not all([*module_name.split("."), *attribute.split(".")]):
        raise ConfigurationError(f"APP {reference!r} is not {_FORM}")
    return module_name, attribute


def _here_on_path() -> str:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return here


def _absent(module: str, here: str) -> ConfigurationError:
    return ConfigurationError(f"there is no module {module!r} in {here} or on Python's path")


def _import(name: str) -> ModuleType:
    here = _here_on_path()
    try:
        _set_django_up()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise _absent(error.name, here) from None
        raise _import_failed(name, error) from error
    except ConfigurationError as error:  # the user's call of ours: the sentence says what to change there
        frames = users_frames(error)
        where = f" ({_near(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
        raise ConfigurationError(f"{error}{where}") from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _set_django_up() -> None:
    if not os.environ.get("DJANGO_SETTINGS_MODULE") or importlib.util.find_spec("django") is None:
        return
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()


def _import_failed(name: str, error: BaseException) -> ConfigurationError:
    """Show where in the user's code, without its text: a line of source may hold a secret (P-QUIET)."""
    frames = users_frames(error)[-_FRAMES_MAX:]
    lines = [f"importing {name!r} failed:"]
    lines += [f"  {_near(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    lines += [f"  {line}" for line in _said(error).splitlines()]
    return ConfigurationError("\n".join(lines))


def _said(error: BaseException) -> str:
    if isinstance(error, SyntaxError):  # Python's own text shows the line
        return f"{type(error).__name__}: {error.msg} at {_near(error.filename or '?')}:{error.lineno}"
    if misnamed := misnamed_argument(error):
        return f"{type(error).__name__}: {misnamed}"
    if isinstance(error, _TEXT_IS_PLAIN):
        return "".join(traceback.format_exception_only(error))
    return f"{type(error).__name__}; its text is not shown, it may hold a setting's value"


def _near(filename: str) -> str:
    """Give *filename* as seen from here, where that is shorter."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _inboxes_of(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, Inbox))
    return f"; its Inbox is {' or '.join(f'{module.__name__}:{name}' for name in names)}" if names else ""
