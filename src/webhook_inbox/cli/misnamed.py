"""Say which argument of ours somebody has misspelt, where Python has refused the call."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from webhook_inbox.model.spelling import meant_by

# As CPython says it since 3.10; the later ones may add a suggestion of their own.
_REFUSAL = re.compile(
    r"(?P<owner>\w+)\.(?P<method>\w+)\(\) got an unexpected keyword argument '(?P<name>\w+)'"
)
_PACKAGE = __name__.partition(".")[0]


def misnamed_argument(error: BaseException) -> str:
    """Give a sentence where *error* is of a call of ours with an argument that it has not; else nothing."""
    refused = _REFUSAL.match(str(error)) if isinstance(error, TypeError) else None
    if refused is None:
        return ""
    for taken in _signatures(refused["owner"], refused["method"]):
        if refused["name"] not in taken:
            call = refused["owner" if refused["method"] == "__init__" else "method"]
            meant = meant_by(refused["name"], taken)
            remedy = f"did you mean {meant}?" if meant else f"it takes {', '.join(taken)}"
            return f"{call} takes no {refused['name']}; {remedy}"
    return ""


def _signatures(owner: str, method: str) -> Iterator[list[str]]:
    """Walk the arguments of each *method* of a class of ours that is called *owner*."""
    for name, module in list(sys.modules.items()):
        found = getattr(module, owner, None) if name.partition(".")[0] == _PACKAGE else None
        if (
            isinstance(found, type)
            and found.__module__ == name
            and callable(called := getattr(found, method, None))
        ):
            yield [each for each in inspect.signature(called).parameters if each != "self"]
