"""A form's JSON is read where a provider sends forms, and no header turns a JSON body into something else."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings, strategies as st

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.event import Event
from webhook_inbox.model.form import FORM_MEMBERS_MAX, form_of, json_of, payload_of
from webhook_inbox.model.headers import Headers

FORM = Headers([("Content-Type", "application/x-www-form-urlencoded")])
ZEN = b"payload=%7B%22zen%22%3A%22a+b%2Bc%22%2C%22action%22%3A%22opened%22%7D"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "APPLICATION/X-WWW-FORM-URLENCODED",
        "application/x-www-form-urlencoded; charset=utf-8",
        "application/x-www-form-urlencoded;charset=utf-8",
    ],
)
def test_the_json_in_the_member_payload_is_the_payload(content_type: str) -> None:
    """C11: parameters and letter case of the media type are ignored; a plus sign is a blank."""
    assert payload_of(Headers([("content-type", content_type)]), ZEN) == {"zen": "a b+c", "action": "opened"}


def test_a_form_without_payload_is_an_object_of_its_members() -> None:
    """Empty members are kept; of a repeated one the last counts, as in JSON."""
    body = b"command=%2Fpay&text=&token=a&token=b&caf%C3%A9=%E2%9C%93"
    assert payload_of(FORM, body) == {"command": "/pay", "text": "", "token": "b", "café": "✓"}


@pytest.mark.parametrize("body", [b'{"payload":"{}"}', b" \r\n\t[1]", b"{not json"])
def test_no_header_makes_a_form_of_what_begins_as_json(body: bytes) -> None:
    """Content-Type is signed by nobody: whoever changes it changes nothing."""
    assert json_of(FORM, body) == body


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "multipart/form-data"])
def test_only_a_form_is_read_as_one(content_type: str) -> None:
    """Anything else is JSON or unreadable."""
    with pytest.raises(PayloadError, match="not JSON"):
        payload_of(Headers([("content-type", content_type)]), ZEN)


@pytest.mark.parametrize(
    "body", [b"a=\xff", b"a=%FF", b"&".join([b"a=1"] * (FORM_MEMBERS_MAX + 1)), "a=é".encode()]
)
def test_a_form_that_cannot_be_read_says_so(body: bytes) -> None:
    """P-CALM: the one documented error."""
    with pytest.raises(PayloadError, match="no form of at most"):
        form_of(body)


@pytest.mark.parametrize("body", [b"", b"payload=", b"payload=%7B", b"payload=payload%3D1"])
def test_a_payload_that_is_no_json_says_so(body: bytes) -> None:
    """The empty form is an empty object; a bad inner text is no JSON."""
    if body:
        with pytest.raises(PayloadError):
            payload_of(FORM, body)
    else:
        assert payload_of(FORM, body) == {}


def test_an_event_s_payload_is_that_of_the_form() -> None:
    """A handler reads what GitHub sent, whichever way the hook is set up; the bytes stay as they were."""
    event = Event(provider="github", endpoint="e", id="1", type="t", headers=FORM, body=ZEN)
    assert event.payload["action"] == "opened"
    assert event.body == ZEN


@given(members=st.dictionaries(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"))))
@settings(max_examples=200, deadline=None)
def test_what_was_written_is_what_is_read(members: dict[str, str]) -> None:
    """Whatever the members hold."""
    assert form_of(urlencode(members).encode()) == members


@given(body=st.binary(max_size=80))
@settings(max_examples=400, deadline=None)
def test_reading_is_total(body: bytes) -> None:
    """P-CALM: JSON text or the documented error, whatever the bytes."""
    with suppress(PayloadError):
        assert isinstance(json_of(FORM, body), bytes)
