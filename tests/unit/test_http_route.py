"""A path finds its endpoint wherever the app is mounted and with any slashes; the URL stays as it was sent."""

from __future__ import annotations

import pytest

from tests.fixtures.asgi import scope_of
from webhook_inbox.http.route import name_in, url_bytes, url_of


@pytest.mark.parametrize(
    ("path", "root_path", "name"),
    [
        ("/billing", "", "billing"),
        ("/billing/", "", "billing"),
        ("//billing", "", "billing"),
        ("/billing//", "", "billing"),
        ("billing", "", "billing"),
        ("", "", ""),
        ("/", "", ""),
        ("/a/billing", "", ""),
        ("*", "", "*"),
        # Starlette from 0.33 and the ASGI specification: the prefix is part of the path.
        ("/webhooks/billing", "/webhooks", "billing"),
        ("/webhooks/billing/", "/webhooks", "billing"),
        ("/webhooks//billing", "/webhooks", "billing"),
        ("//webhooks/billing", "/webhooks", "billing"),
        ("/api/webhooks/billing", "/api/webhooks", "billing"),
        ("/webhooks/webhooks", "/webhooks", "webhooks"),
        ("/webhooks/a/billing", "/webhooks", ""),
        ("/webhooks", "/webhooks", "webhooks"),
        ("/other/billing", "/webhooks", ""),
        ("/webhooks/billing", "/webhooks/", "billing"),
        # Starlette before 0.33: the prefix is cut off.
        ("/billing", "/webhooks", "billing"),
        ("/billing/", "/webhooks", "billing"),
        ("/", "/webhooks", ""),
        ("/hooks/billing", "/webhooks", ""),
        # A proxy that strips the prefix, and a server that was told of it (uvicorn --root-path).
        ("/billing", "/api/webhooks", "billing"),
        ("/webhooks/billing", "/api/webhooks", "billing"),
        ("/api/billing", "/api/webhooks", ""),
    ],
)
def test_the_endpoint_is_found_under_every_prefix_and_with_every_slash(
    path: str, root_path: str, name: str
) -> None:
    """One segment after the prefix is the endpoint's name; nothing else is, and empty segments do not count."""
    assert name_in(scope_of(path, root_path=root_path)) == name


def test_a_missing_prefix_is_an_empty_one() -> None:
    """Servers may leave root_path out or give None."""
    scope = scope_of("/billing")
    del scope["root_path"]
    assert name_in(scope) == "billing"
    assert name_in(scope_of("/billing", root_path=None)) == "billing"


@pytest.mark.parametrize(
    ("raw_path", "query", "url"),
    [
        (b"/hooks/twilio", b"", "https://hooks.example.test/hooks/twilio"),
        (b"/hooks/tw%69lio", b"a=1&b=%20", "https://hooks.example.test/hooks/tw%69lio?a=1&b=%20"),
        (b"//hooks//", b"", "https://hooks.example.test//hooks//"),
        (b"/\xe9", b"\xff", "https://hooks.example.test/\xe9?\xff"),
    ],
)
def test_the_url_is_as_the_client_asked_for_it(raw_path: bytes, query: bytes, url: str) -> None:
    """Escapes, case and slashes are kept: a provider that signs the URL signed this text."""
    scope = scope_of("/decoded", raw_path=raw_path, query_string=query)
    assert url_of(scope, "hooks.example.test") == url
    assert url_bytes(scope) == len(raw_path) + len(query)


def test_without_a_raw_path_the_decoded_one_is_used() -> None:
    """Some servers give no raw_path; an ASCII path is the same in both."""
    scope = scope_of("/hooks/twilio", raw_path=None)
    assert url_of(scope, "h") == "https://h/hooks/twilio"
    assert url_bytes(scope) == len("/hooks/twilio")
