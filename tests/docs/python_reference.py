"""
Write ``docs/reference/python.md`` from the docstrings of the public names: ``python -m tests.docs.python_reference``.

A name is documented once, where a reader first meets it; what a class has from a base that is itself public is
documented with that one.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

MODULES = ("webhook_inbox", "webhook_inbox.sources", "webhook_inbox.destinations", "webhook_inbox.testing")
_LINE_MAX = 100
_STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
_SECTIONS = re.compile(r"(Args|Attributes|Returns|Raises|Promises|Source|Concurrency):(.*)")
_HEAD = """# Python

Every public name, as its docstring has it. This page is made from the code: `python -m tests.docs.python_reference`
prints it, and a test compares the two. What is not here is not public, and may change without notice. The settings
that `Inbox(...)` and `endpoint(...)` take are in [settings](settings.md), what is raised in [errors](errors.md), what
is known of each provider in [sources](sources.md).
"""


def page() -> str:
    """Give the whole page."""
    lines = [_HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        lines += [f"## `{name}`", ""]
        for each in module.__all__:
            lines += [f"### {each}" if each.isalnum() else f"### `{each}`", ""]
            lines += _documented(each, getattr(module, each), _public())
    return "\n".join(lines).rstrip() + "\n"


def _public() -> set[Any]:
    """The classes that have an entry of their own."""
    modules = map(importlib.import_module, MODULES)
    things = (getattr(module, name) for module in modules for name in module.__all__)
    return {thing for thing in things if inspect.isclass(thing)}


def _documented(name: str, thing: Any, public: set[Any]) -> Iterator[str]:
    if not callable(thing) or not hasattr(thing, "__module__") or not inspect.getdoc(thing):
        yield f"`{type(thing).__name__}`\n" if isinstance(thing, str) else f"`{_plain(str(thing))}`\n"
        return
    if not inspect.isclass(thing):
        yield from _entry(name, thing)
        return
    if issubclass(thing, enum.Enum):
        yield from (_prose(thing), "", *(f"- `{each.name}`: `{each.value!r}`" for each in thing), "")
        return
    if getattr(thing, "_is_protocol", False):
        yield from (f"```python\nclass {name}(Protocol)\n```\n", _prose(thing), "")
    else:
        yield from _entry(name, thing)
    for member, found in _members(thing, public):
        yield from (f"#### {name}.{member}", "")
        yield from _entry(member, found)


def _members(thing: type[Any], public: set[Any]) -> Iterator[tuple[str, Any]]:
    """The methods and properties of *thing*, in the order in which they are written, its own before its bases'."""
    seen = {name for base in public.intersection(thing.__mro__) - {thing} for name in vars(base)}
    for base in thing.__mro__:
        if not base.__module__.startswith("webhook_inbox") or (base is not thing and base in public):
            continue
        for name, found in vars(base).items():
            function = getattr(found, "__func__", found)
            told = isinstance(found, property) or inspect.isfunction(function)
            if told and not name.startswith("_") and name not in seen and inspect.getdoc(function):
                seen.add(name)
                yield name, found


def _entry(name: str, thing: Any) -> tuple[str, ...]:
    """Signature and docstring of a class, a function or a property."""
    return (f"```python\n{_signature(name, thing)}\n```", "", _prose(thing), "")


def _signature(name: str, thing: Any) -> str:
    if isinstance(thing, property):
        return f"{name} -> {_annotation(inspect.signature(thing.fget).return_annotation)}"  # type: ignore[arg-type]  # it has one
    function = getattr(thing, "__func__", thing)
    signature = inspect.signature(function)
    shown = [each for each in _parameters(signature.parameters.values()) if each not in {"self", "cls"}]
    gives = "" if inspect.isclass(thing) else f" -> {_annotation(signature.return_annotation)}"
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}({', '.join(shown)}){gives}"
    if len(line) <= _LINE_MAX:
        return line
    return "\n".join([f"{prefix}{name}(", *(f"    {each}," for each in shown), f"){gives}"])


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not starred:
            yield "*"
        starred |= each.kind in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}
        text = _STARS.get(each.kind.name, "") + each.name
        if each.annotation is not each.empty:
            text += f": {_annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {_default(each.default)}"
        yield text


def _annotation(given: Any) -> str:
    return given if isinstance(given, str) else _plain(getattr(given, "__name__", str(given)))


def _default(given: Any) -> str:
    """A default as its reader would write it: no address of this process in it."""
    if inspect.isfunction(given) or inspect.isclass(given):
        return given.__name__
    if isinstance(given, enum.Enum):
        return f"{type(given).__name__}.{given.name}"
    shown = json.dumps(given) if isinstance(given, str) else repr(given)
    return re.sub(r"<factory>|<.* at 0x\w+>", "...", shown)


def _prose(thing: Any) -> str:
    """The docstring as Markdown: its sections as lists, its literals as Markdown has them."""
    text = (inspect.getdoc(thing) or "").replace("``", "`")
    lines: list[str] = []
    section = False
    for line in text.splitlines():
        if (found := _SECTIONS.fullmatch(line)) is not None:
            section = True
            lines += [f"**{found[1]}**:{found[2]}", ""] if found[2] else [f"**{found[1]}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            named = colon and re.fullmatch(r"[\w.*, ()]+", name) and len(name.split()) <= 3
            lines.append(f"- `{name}`: {rest}" if named else line.strip())
        else:
            section = section and (not line or line.startswith(" "))
            lines.append(f"  {line.strip()}".rstrip() if section else line)
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Names without the rooms that they come from."""
    return re.sub(r"\b(?:webhook_inbox|typing|collections\.abc)\.(?:\w+\.)*", "", text)


if __name__ == "__main__":
    sys.stdout.write(page())
