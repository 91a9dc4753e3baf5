"""
Find the JSON in a body, where a provider may also send an HTML form.

    {"action": ...}              the body is the JSON
    payload=%7B%22action...      GitHub's default and Slack's interactivity: the JSON is the form's member ``payload``
    command=%2Fpay&text=...      Slack's slash commands, Mailgun's older webhooks: the members are the JSON

Nothing is rewritten: what is verified and stored is the body as it was sent, and this reading of it is made anew where
it is needed. ``Content-Type`` is signed by nobody, so it decides only about a body that does not begin as JSON does.
Promises: P-CALM.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.payload import parse_payload

FORM_TYPE = "application/x-www-form-urlencoded"
FORM_MEMBERS_MAX = 1_000
_JSON_BLANKS = b" \t\r\n"
_JSON_STARTS = (b"{", b"[")


def payload_of(headers: Headers, body: bytes) -> Any:  # noqa: ANN401 - JSON of a shape that only the provider knows
    """
    Give the JSON value that *body* carries.

    Raises:
        PayloadError: Says what is wrong; never quotes the body (P-QUIET).
    """
    return parse_payload(json_of(headers, body))


def json_of(headers: Headers, body: bytes) -> bytes:
    """
    Give the JSON text that *body* carries: itself unless it is a form.

    Of a repeated member the last one counts, as in JSON.

    Raises:
        PayloadError: A form that cannot be read.
    """
    if body.lstrip(_JSON_BLANKS).startswith(_JSON_STARTS) or not is_form(headers):
        return body
    members = form_of(body)
    if "payload" in members:
        return members["payload"].encode()
    return json.dumps(members).encode()


def is_form(headers: Headers) -> bool:
    """Say whether the headers call the body a form; parameters and letter case of the media type do not count."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE


def form_of(body: bytes) -> dict[str, str]:
    """
    Give the members of a form, decoded; of a repeated one the last.

    Raises:
        PayloadError: As ``form_pairs``.
    """
    return dict(form_pairs(body))


def form_pairs(body: bytes) -> list[tuple[str, str]]:
    """
    Give every name and value of a form, decoded, as sent.

    Raises:
        PayloadError: Not UTF-8, or more than ``FORM_MEMBERS_MAX`` members.
    """
    try:
        text = body.decode("ascii")  # everything else is escaped (WHATWG URL Standard, section 5.2)
        return parse_qsl(
            text, keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=FORM_MEMBERS_MAX
        )
    except ValueError:  # UnicodeDecodeError is one
        raise PayloadError(f"no form of at most {FORM_MEMBERS_MAX} members, escaped and in UTF-8") from None
