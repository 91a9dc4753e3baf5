"""Find out which endpoint a path means: bare, under a prefix, with or without slashes to spare."""

from __future__ import annotations

from webhook_inbox.http.messages import Scope


def name_in(scope: Scope) -> str:
    """
    Give the name that the path puts after the prefix; empty where it is not exactly one segment.

    A mounted app sees its prefix in ``root_path``. Whether ``path`` still starts with it depends on who put it there:
    the ASGI specification and Starlette from 0.33 leave it on, older ones cut it off, and a proxy may have cut off
    the part that the server was told of, but not the part that the framework added. So: what stands before the name
    must be the end of the prefix, be it the whole prefix or none of it.

    Empty segments do not count: ``/billing``, ``/billing/`` and ``//billing`` are one path, and nobody is redirected.
    """
    *before, name = _segments(scope["path"]) or [""]
    if not before:
        return name
    prefix = _segments(scope.get("root_path") or "")
    return name if prefix[-len(before) :] == before else ""


def last_segment(scope: Scope) -> str:
    """Give what stands behind the path's last slash but for one at its end; empty where there is nothing."""
    return (_segments(scope["path"]) or [""])[-1]


def url_of(scope: Scope, host: str) -> str:
    """Give the URL as the client asked for it, the query and every escape included: some providers sign it."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    query = scope.get("query_string") or b""
    path = raw.decode("latin-1")
    url = f"{scope.get('scheme', 'http')}://{host}{path}"
    return f"{url}?{query.decode('latin-1')}" if query else url


def url_bytes(scope: Scope) -> int:
    """Give the length of path and query, as sent where the server says so."""
    return len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string") or b"")


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]
