"""``docs/reference/http.md`` names every code, limit and setting that the receiver has, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import webhook_inbox
from webhook_inbox import errors
from webhook_inbox.errors import HandlerError, InboxError, StoreError
from webhook_inbox.http.body import LINGER_BYTES_MAX, LINGER_SECONDS_MAX
from webhook_inbox.http.limits import HEADERS_MAX, URL_BYTES_MAX
from webhook_inbox.http.ops import READY_SECONDS_MAX
from webhook_inbox.model.settings import Settings
from webhook_inbox.sources.signature import Part
from webhook_inbox.sources.source import BODY_BYTES_MAX

SOURCE = Path(webhook_inbox.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs/reference/http.md").read_text()


def documented() -> dict[str, set[int]]:
    """Reason codes of the page's table of answers, with the statuses under which they stand."""
    rows = re.findall(r"^\| (\d{3}) \| ([^|]*) \|", PAGE, re.MULTILINE)
    found: dict[str, set[int]] = {}
    for status, reasons in rows:
        for reason in re.findall(r"`(\w+)`", reasons):
            found.setdefault(reason, set()).add(int(status))
    return found


def written_in_the_code() -> dict[str, set[int]]:
    """Reason codes that stand literally in a call that makes an answer, with their statuses."""
    found: dict[str, set[int]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (made := _answer(node)):
                found.setdefault(made[1], set()).add(made[0])
    return found


def _answer(call: ast.Call) -> tuple[int, str] | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    constants = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    match name, constants:
        case "refused", [int(status), str(reason), *_]:
            return status, reason
        case "unavailable", [str(reason), str(), *_]:
            return 503, reason
        case "Rejected", [str(reason), *_]:
            return 400, reason
        case _:
            return None


def error_codes() -> dict[str, set[int]]:
    """Codes of the errors that become answers, with their statuses (``answers.failed``)."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, InboxError)
    ]
    found = {kind.code: {500} for kind in kinds if issubclass(kind, HandlerError) and kind.code != "not_yet"}
    found |= {kind.code: {503} for kind in kinds if issubclass(kind, StoreError)}
    ours = ("not_yet", "configuration", "body_consumed", "verification_key")
    return found | {code: {503} for code in ours}


def test_every_code_is_documented_and_no_other() -> None:
    """What a log, a metric or a provider's page shows can be looked up."""
    parts = {f"{part}_{flaw}": {400} for part in get_args(Part) for flaw in ("missing", "malformed")}
    assert documented() == written_in_the_code() | error_codes() | parts


def test_the_limits_are_documented_as_they_are() -> None:
    """Numbers on the page are the program's."""
    limits = dict(re.findall(r"^\| [^|]+ \| (`\w+`|fixed) \| ([^|]+) \|$", PAGE, re.MULTILINE))
    settings = Settings()
    assert f"{BODY_BYTES_MAX:,} bytes" in limits["`body_bytes_max`"]
    assert limits["`body_seconds_max`"] == f"{settings.body_seconds_max:g} s"
    assert limits["`body_bytes_per_second_min`"] == f"{settings.body_bytes_per_second_min:,.0f} bytes"
    assert limits["`header_bytes_max`"] == f"{settings.header_bytes_max:,} bytes"
    assert f"| number of headers | fixed | {HEADERS_MAX} |" in PAGE
    assert f"| path and query | fixed | {URL_BYTES_MAX:,} bytes |" in PAGE
    assert f"over {URL_BYTES_MAX:,} bytes" in PAGE
    assert f"over {HEADERS_MAX} headers" in PAGE
    assert (LINGER_SECONDS_MAX, LINGER_BYTES_MAX) == (1.0, 64 * 1024)
    assert "at most one second, up to `body_bytes_max` and 64 KiB" in PAGE
    assert f"within {READY_SECONDS_MAX:g} s" in PAGE
