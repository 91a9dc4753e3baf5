"""An audit's events are the provider's bytes, but for the values that must be new, and say whose they are."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.sample import NamedBy, Samples

PAID = (
    b'{ "id": "evt_1",\n "data": {"id": "in_1", "order": 820982911946154508, "of": "in_1"}, '
    b'"n": 1.0e2, "sum": 8209829119461545081 }'
)
VOID = b'{"id":"evt_2","data":{"id":"in_1"}}'
FRESH = ["id", "data.id", "data.order"]


def samples(*bodies: bytes, fresh: list[str] = FRESH, seed: int = 1, named_by: NamedBy = "body") -> Samples:
    """Samples of these bodies."""
    return Samples(bodies or (PAID,), fresh, seed=seed, named_by=named_by)


def test_only_the_fresh_values_differ() -> None:
    """Spacing, order and the spelling of numbers stay as they are; a value is new wherever it stands."""
    event = samples().one()
    payload = json.loads(event.body)
    assert payload["data"]["of"] == payload["data"]["id"] != "in_1"
    assert payload["sum"] == 8209829119461545081
    again = event.body
    for name, old in [("id", b"evt_1"), ("data.id", b"in_1"), ("data.order", b"820982911946154508")]:
        again = again.replace(event.names[name].encode(), old)
    assert again == PAID


def test_the_new_values_say_that_they_are_an_audits() -> None:
    """A text has the audit's mark, a number the digits that it had, a UUID its own beginning."""
    body = b'{"id": "00000000-0000-4000-8000-000000000001", "order": 5000000000001, "in": "in_1"}'
    of = samples(body, fresh=["id", "in", "order"])
    event = of.one()
    assert event.id.startswith("a0d17")
    assert str(UUID(event.id)) == event.id
    assert event.names["in"].startswith(f"in_{of.run}_")
    assert (len(event.names["order"]), event.names["order"][0]) == (13, "9")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (rb'"evt_\u00e9"', "evt_é"),
        (rb'"a\/b"', "a/b"),
        (rb'"evt_\"1"', 'evt_"1'),
        ('"evt_é"'.encode(), "evt_é"),
    ],
)
def test_an_id_is_found_however_it_is_written(written: bytes, said: str) -> None:
    """By what it says, wherever it stands; a name that says the same is a name."""
    body = b'{"id": ' + written + b', "of": [' + written + b"], " + written + b': "kept"}'
    event = samples(body, fresh=["id"]).one()
    assert json.loads(event.body) == {"id": event.id, "of": [event.id], said: "kept"}
    assert event.id != said
    assert event.body.endswith(b"], " + written + b': "kept"}')


@pytest.mark.parametrize(
    ("old", "digits"), [(7, 9), (99_999, 9), (2_147_483_647, 9), (9_000_000_000, 10), (10**18, 18)]
)
def test_a_short_number_is_new_in_each_event_and_stays_what_a_database_can_hold(
    old: int, digits: int
) -> None:
    """As long as it takes for no two to be the same; never longer than the column that held it."""
    of = samples(json.dumps({"id": old}).encode(), fresh=["id"])
    made = {json.loads(of.one().body)["id"] for _ in range(50)}
    assert len(made) == 50
    assert {len(str(each)) for each in made} == {digits}
    assert {str(each)[0] for each in made} == {"9"}


def test_a_short_number_is_an_id_only_where_it_was_named() -> None:
    """Elsewhere it may be a count; one of six digits is the same thing everywhere."""
    body = b'{"id": 7, "lines": 7, "no": "7", "order": 123456, "of": [123456, 123456.0]}'
    event = samples(body, fresh=["id", "order", "no"]).one()
    payload = json.loads(event.body)
    assert (payload["lines"], payload["of"][1]) == (7, 123456.0)
    assert (str(payload["id"]), str(payload["of"][0])) == (event.names["id"], event.names["order"])
    assert payload["no"] == event.names["no"] != "7"


def test_each_event_is_another_one_and_a_seed_brings_them_again() -> None:
    """No id comes twice in an audit; the same seed makes the same events, another one others."""
    first, second, other = samples(), samples(), samples(seed=2)
    made = [first.one().body for _ in range(50)]
    assert len(set(made)) == 50
    assert made == [second.one().body for _ in range(50)]
    assert not set(made) & {other.one().body for _ in range(50)}
    assert first.peek().body == first.one().body


def test_a_story_shares_what_its_payloads_share() -> None:
    """Two events of one invoice stay events of one invoice, which no other story has."""
    of = samples(PAID, VOID, fresh=["id", "data.id"])
    paid, void = of.story()
    assert paid.names["data.id"] == void.names["data.id"]
    assert paid.id != void.id
    assert of.story()[0].names["data.id"] != paid.names["data.id"]


@pytest.mark.parametrize("named_by", ["text", "uuid"])
def test_a_source_that_names_the_event_in_a_header_needs_no_id_in_the_body(named_by: NamedBy) -> None:
    """The id is the audit's, of the form that the source sends."""
    of = samples(PAID, VOID, fresh=["absent"], named_by=named_by)
    paid, void = of.story()
    assert paid.body == PAID
    assert paid.id != void.id
    assert paid.names == {"event_id": paid.id}
    assert UUID(paid.id) if named_by == "uuid" else of.run in paid.id


@pytest.mark.parametrize(
    "body",
    [
        *(b"a=1&b=2", b"[1]", b'"text"', b"{", b"[" * 100_000, VOID.replace(b"id", b"ID")),
        *(b'{"id": 1.5}', b'{"id": true}', b'{"id": ""}', '{"id": "é"}'.encode("latin-1")),
    ],
)
def test_what_no_event_can_be_made_of_is_refused(body: bytes) -> None:
    """In a sentence that says what to give, without a word of the payload."""
    with pytest.raises(ConfigurationError, match="a payload"):
        samples(body)


@pytest.mark.parametrize("body", [b'{"id":"evt_1"}', b'[ {"id": 1}]', b"{ }"])
def test_a_member_is_put_at_the_head_of_the_first_object(body: bytes) -> None:
    """Whatever else is in it, it stays JSON."""
    event = samples(body, fresh=[], named_by="text").one()
    payload = json.loads(event.with_member('"audit":[1]'))
    assert (payload[0] if isinstance(payload, list) else payload)["audit"] == [1]
