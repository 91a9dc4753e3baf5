"""A secret is usable, unprintable, and refused at once where it cannot be right."""

from __future__ import annotations

import copy
import pickle

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret, secrets_of

VALUE = "whsec_fake_canary_0123456789"


def test_no_way_of_printing_shows_the_value() -> None:
    """P-QUIET: repr, str, format, an f-string and a container show the label alone."""
    secret = Secret(VALUE, label="new")
    for shown in (repr(secret), str(secret), f"{secret}", repr([secret]), f"{secret!r}"):
        assert VALUE not in shown
    assert repr(secret) == "Secret(label='new')"


def test_a_secret_cannot_be_pickled() -> None:
    """P-QUIET: no job queue, cache or crash report writes it down."""
    with pytest.raises(TypeError, match=r"^a Secret cannot be pickled$"):
        pickle.dumps(Secret(VALUE))
    with pytest.raises(TypeError):
        copy.copy(Secret(VALUE))


def test_the_value_comes_back_as_it_was_given() -> None:
    """White space inside and letter case belong to it."""
    assert Secret("Fake Secret é").reveal() == "Fake Secret é"
    assert Secret(VALUE).label == ""


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        (None, "is empty; set it to the value that the provider shows"),
        ("", "is empty; set it to the value that the provider shows"),
        (" \t\n", "is empty; set it to the value that the provider shows"),
        (f"{VALUE}\n", "starts or ends with white space, such as the line end of a file; remove it"),
        (f" {VALUE}", "starts or ends with white space, such as the line end of a file; remove it"),
        ("caf\udce9", "is not text in UTF-8"),
        (b"whsec_fake", "is of type bytes; a signing secret is text"),
        (17, "is of type int; a signing secret is text"),
    ],
)
def test_a_value_that_no_provider_issues_is_refused(value: object, flaw: str) -> None:
    """C09, C10: none, empty, blank, padded or no text: the reason is named, the value is not."""
    with pytest.raises(ConfigurationError, match=f"^a signing secret {flaw}$"):
        Secret(value)  # type: ignore[arg-type]  # what an untyped program may do
    with pytest.raises(ConfigurationError, match=rf"^here: entry 2 {flaw}$") as raised:
        secrets_of(["fake-good", value], setting="here")
    assert VALUE not in str(raised.value)


def test_one_or_several_come_back_labelled_by_position_in_order() -> None:
    """The first configured is ``secret-1``; a label of one's own is kept."""
    assert [secret.label for secret in secrets_of("fake-a", setting="here")] == ["secret-1"]
    several = secrets_of(iter(["fake-a", Secret("fake-b", label="old"), Secret("fake-c")]), setting="here")
    assert [(secret.label, secret.reveal()) for secret in several] == [
        ("secret-1", "fake-a"),
        ("old", "fake-b"),
        ("secret-3", "fake-c"),
    ]
    assert [secret.label for secret in secrets_of(Secret("fake-d", label="only"), setting="here")] == ["only"]


@pytest.mark.parametrize("given", [None, 5, b"whsec_fake", bytearray(b"whsec_fake")])
def test_what_holds_no_secret_is_refused(given: object) -> None:
    """C10: an unset variable stops the start and says which setting it was."""
    with pytest.raises(
        ConfigurationError,
        match=r"^here has no signing secret; give a string, a Secret, or several of them$",
    ):
        secrets_of(given, setting="here")


def test_an_empty_list_is_refused() -> None:
    """C10: no secret is not the same as no check."""
    with pytest.raises(
        ConfigurationError, match=r"^here is an empty list; give at least one signing secret$"
    ):
        secrets_of([], setting="here")
