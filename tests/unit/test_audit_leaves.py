"""Where the values of a JSON document stand is found, whatever it holds and however it is written."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, strategies as st

from webhook_inbox.testing.audit.leaves import leaves, spaced

PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
DOCUMENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
INDENTS = st.sampled_from([None, 0, 3])


def count(document: Any) -> int:
    """How many leaves a document has."""
    match document:
        case dict():
            return sum(map(count, document.values()))
        case list():
            return sum(map(count, document))
        case _:
            return 1


@given(document=DOCUMENTS, indent=INDENTS, ascii_only=st.booleans())
def test_every_leaf_is_found_with_its_value_and_its_place(
    document: Any, indent: int | None, ascii_only: bool
) -> None:
    """What stands there says the value, and nothing is found twice, or in a name."""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    found = list(leaves(text))
    assert len(found) == count(document)
    assert [json.loads(text[each.start : each.stop]) for each in found] == [each.value for each in found]
    assert [each.stop for each in found] == sorted({each.stop for each in found})


@given(document=DOCUMENTS, indent=INDENTS)
def test_white_space_changes_nothing_that_is_said(document: Any, indent: int | None) -> None:
    """Also where a text looks like a name with its colon."""
    text = json.dumps(document, indent=indent)
    assert json.loads(spaced(text)) == document


@pytest.mark.parametrize(
    ("path", "value"),
    [("id", "é"), ("data.0.id", 1), ("data.1", "a:b"), ("data.2.0", None), ("in\nit.id", 'say "no", [x]')],
)
def test_a_leaf_is_named_by_the_way_to_it(path: str, value: object) -> None:
    """Names and places in arrays, with dots."""
    text = r'{"id":"\u00e9", "data": [{"id" : 1}, "a:b", [null]], "in\nit": {"id": "say \"no\", [x]"}}'
    found = {each.path: each.value for each in leaves(text)}
    assert found[path] == value
    steps = [int(step) if step.isdecimal() else step for step in path.split(".")]
    assert reduce(lambda inner, step: inner[step], steps, json.loads(text)) == value


def test_white_space_stands_on_both_sides_of_each_colon_and_nowhere_in_a_text() -> None:
    """A text may hold what looks like the end of a name."""
    assert spaced(r'{"a":"b\":c","d" : [1]}') == '{"a" \n:\t "b\\":c","d" \n:\t  [1]} \n'
