"""Find out which endpoint a path means: bare, under a prefix, with or without slashes to spare."""

from __future__ import annotations

from webhook_inbox.http.messages import Scope


def names_in(scope: Scope) -> tuple[str, ...]:
    """
    Give the endpoint names that the path may mean, the likeliest first; none, one or two.

    A mounted app sees the prefix in ``root_path``. Whether ``path`` still starts with it depends on the framework:
    Starlette before 0.33 cut it off, newer ones and the ASGI specification leave it on. Both readings are offered, so
    that an endpoint that has the prefix's own name is found under both.

    Empty segments do not count: ``/billing``, ``/billing/`` and ``//billing`` are one path, and nobody is redirected.
    """
    segments = _segments(scope["path"])
    whole = tuple(segments) if len(segments) == 1 else ()
    prefix = _segments(scope.get("root_path") or "")
    return (segments[-1], *whole) if prefix and segments[:-1] == prefix else whole


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
