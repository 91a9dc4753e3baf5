"""
Keep passwords and secrets out of whatever is said, as the last line of defence (P-QUIET).

Our own sentences hold none. But a usage error quotes what was typed, and an exception of the user's module says what
it likes.
"""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import unquote

_MASK = "***"
_SECRET_OPTION = "--secret"  # noqa: S105 - the option's name
_SECRET_VARIABLE = "WEBHOOK_INBOX_SECRET"  # noqa: S105 - the variable's name
_DSN_VARIABLES = ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL")
_SECRET_CHARS_MIN = 4
# The user part ends at the last @: an ill-formed URL has a password with @, / or : in it.
_CREDENTIALS = re.compile(r"(?<=://)(?!user:password@host/)[^\s'\"]*@")  # our own sentences show that form
_PASSWORD_OF_URL = re.compile(r"://[^\s:]*:(\S*)@")
_PASSWORD_OF_PAIR = re.compile(r"(?i)\b(\w*password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s'\"&]+)")


def mask(text: str) -> str:
    """Give *text* without credentials of URLs, passwords of DSNs, and secrets that this process was given (P-QUIET)."""
    for secret in _given_secrets():
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", _MASK, text)
    return _PASSWORD_OF_PAIR.sub(rf"\1{_MASK}", _CREDENTIALS.sub(_MASK + "@", text))


def passwords_in(dsn: str) -> set[str]:
    """Give whatever may be a password in *dsn*, of any form and however ill-formed, as written and decoded."""
    found = _PASSWORD_OF_URL.findall(dsn) + [match[1].strip("'") for match in _PASSWORD_OF_PAIR.findall(dsn)]
    return {form for each in found for form in (each, unquote(each))}


def _given_secrets() -> list[str]:
    """Longest first, so that a secret that holds another one is masked whole."""
    found = {os.environ.get(_SECRET_VARIABLE, "")}
    for dsn in (*(os.environ.get(variable, "") for variable in _DSN_VARIABLES), *sys.argv):
        found |= passwords_in(dsn)
    for option, value in zip(sys.argv, sys.argv[1:], strict=False):
        found.add(value if option == _SECRET_OPTION else "")
    found |= {each.partition("=")[2] for each in sys.argv if each.startswith(_SECRET_OPTION + "=")}
    return sorted((each for each in found if len(each) >= _SECRET_CHARS_MIN), key=len, reverse=True)
