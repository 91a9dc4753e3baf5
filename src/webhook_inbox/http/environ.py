"""
Read the head of a WSGI request as an ASGI scope, so that the rules about heads stand once, in ``limits`` and ``route``.

WSGI keeps less: a repeated header comes as one, joined by commas, and ``-`` cannot be told from ``_`` in a name.
Servers put the path as it was sent into ``RAW_URI`` or ``REQUEST_URI``; where none does, it is escaped anew, and a
provider that signs the URL needs ``public_url``.

Source: PEP 3333, "environ Variables" and "Unicode Issues".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from webhook_inbox.http.messages import Scope

_RAW = ("RAW_URI", "REQUEST_URI")
_WITHOUT_PREFIX = {"CONTENT_TYPE": b"content-type", "CONTENT_LENGTH": b"content-length"}
_UNESCAPED = "/!$&'()*+,;=:@~"  # RFC 3986, section 3.3


def scope_of(environ: Mapping[str, Any]) -> Scope:
    """Give the ASGI scope of the HTTP request that *environ* describes."""
    prefix = _bytes(environ.get("SCRIPT_NAME", ""))
    path = prefix + _bytes(environ.get("PATH_INFO", ""))
    port = str(environ.get("SERVER_PORT", ""))
    return {
        "type": "http",
        "http_version": str(environ.get("SERVER_PROTOCOL", "")).removeprefix("HTTP/"),
        "method": environ["REQUEST_METHOD"],
        "scheme": environ["wsgi.url_scheme"],
        "path": path.decode(errors="replace"),
        "root_path": prefix.decode(errors="replace"),
        "raw_path": _raw_path(environ) or quote(path, safe=_UNESCAPED).encode(),
        "query_string": _bytes(environ.get("QUERY_STRING", "")),
        "headers": _headers(environ),
        "server": (environ.get("SERVER_NAME", ""), int(port) if port.isdecimal() else None),
    }


def _raw_path(environ: Mapping[str, Any]) -> bytes:
    """Give the path as the client sent it; empty where the server does not say, or was sent a whole URL."""
    for key in _RAW:
        if (target := str(environ.get(key) or "")).startswith("/"):
            return _bytes(target.partition("?")[0])
    return b""


def _headers(environ: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    headers = [
        (key.removeprefix("HTTP_").replace("_", "-").lower().encode("latin-1"), _bytes(value))
        for key, value in environ.items()
        # A header called Content_Length is none of the length.
        if key.startswith("HTTP_") and key.removeprefix("HTTP_") not in _WITHOUT_PREFIX
    ]
    return headers + [
        (name, _bytes(environ[key])) for key, name in _WITHOUT_PREFIX.items() if environ.get(key)
    ]


def _bytes(text: str) -> bytes:
    """Give the bytes that a server has put into a ``str``, one a character."""
    return str(text).encode("latin-1", "replace")
