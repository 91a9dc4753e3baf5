"""Which function is called for which event, and which registrations are refused at once."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from webhook_inbox import Inbox
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.protocol.handlers import Handlers, Pattern
from webhook_inbox.sources import Stripe


def book(tx: Any, event: Any) -> None:
    """A handler."""


def tell(tx: Any, event: Any) -> None:
    """Another handler."""


async def book_async(tx: Any, event: Any) -> None:
    """A handler that awaits."""


class Bookkeeper:
    """A handler that is an object, and cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]  # as a dataclass with eq has it

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, tx: Any, event: Any) -> None:
        """Handle."""

    async def later(self, tx: Any, event: Any) -> None:
        """Handle, awaiting."""


def registered(*pairs: tuple[str, Callable[..., Any]]) -> Handlers:
    """Handlers, registered in the order given."""
    handlers = Handlers()
    for event_type, function in pairs:
        handlers.on(event_type)(function)
    return handlers


@pytest.mark.parametrize(
    ("pattern", "event_type", "matches"),
    [
        ("invoice.paid", "invoice.paid", True),
        ("invoice.paid", "invoice.paid.late", False),
        ("invoice.paid", "invoice.pai", False),
        ("invoice.paid", "Invoice.paid", False),
        ("invoice.paid", "invoiceXpaid", False),
        ("invoice.*", "invoice.paid", True),
        ("invoice.*", "invoice.", True),
        ("invoice.*", "invoice", False),
        ("invoice.*", "invoices.paid", False),
        ("inv*", "invoice", True),
        ("*", "", True),
        ("*", "anything at all", True),
        ("[a-z]", "a", False),
    ],
)
def test_a_type_is_matched_literally_or_by_its_prefix(pattern: str, event_type: str, matches: bool) -> None:
    """A pattern is no regular expression: a final star stands for any rest, and nothing else is special."""
    assert Pattern(pattern).matches(event_type) is matches


@pytest.mark.parametrize("text", ["", "*.paid", "in*ice", "**", "a**", None, 7, b"a"])
def test_a_pattern_that_would_surprise_is_refused(text: Any) -> None:
    """A star anywhere but at the end, or nothing, is a mistake; the text names it."""
    with pytest.raises(ConfigurationError, match="is no type, prefix with a final") as raised:
        Pattern(text)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.c", True),
        ("a.*", "b.c", False),
        ("a.*", "a.b.*", True),
        ("a.*", "b.*", False),
        ("*", "b.*", True),
        ("*", "b", True),
    ],
)
def test_patterns_overlap_where_some_type_matches_both(one: str, other: str, overlap: bool) -> None:
    """Overlap is what two handlers of one event come from; it has no direction."""
    assert Pattern(one).overlaps(Pattern(other)) is overlap
    assert Pattern(other).overlaps(Pattern(one)) is overlap


def test_all_that_match_run_in_registration_order() -> None:
    """The order in which handlers were registered is the order in which they run."""
    handlers = registered(("*", tell), ("invoice.paid", book))
    assert [handler.function for handler in handlers.matching("invoice.paid")] == [tell, book]
    assert [handler.function for handler in handlers.matching("other")] == [tell]
    assert registered(("invoice.paid", book)).matching("other") == ()


def test_a_function_runs_once_however_many_of_its_types_match() -> None:
    """``on("invoice.*", "*")`` is one run for an invoice event, not two."""
    handlers = Handlers()
    assert handlers.on("invoice.*", "*", "other")(book) is book
    assert [handler.pattern.text for handler in handlers] == ["invoice.*", "*", "other"]
    assert [handler.function for handler in handlers.matching("invoice.paid")] == [book]


def test_an_object_that_cannot_be_hashed_may_be_a_handler() -> None:
    """Handlers are compared, never hashed."""
    keeper = Bookkeeper()
    handlers = registered(("a", keeper), ("*", keeper))
    (found,) = handlers.matching("a")
    assert found.function is keeper
    assert found.kind == "sync"
    assert found.name.endswith(".Bookkeeper")


def test_the_kind_of_a_function_is_seen_through_partials_wrappers_and_objects() -> None:
    """``async def`` is recognised however it is dressed."""

    def plain(_: Any, tx: Any, event: Any) -> None: ...

    async def awaited(_: Any, tx: Any, event: Any) -> None: ...

    @functools.wraps(book_async)
    def wrapped(*args: Any) -> Any:
        return book_async(*args)

    class Caller:
        async def __call__(self, tx: Any, event: Any) -> None: ...

    def kind(function: Callable[..., Any]) -> str:
        (handler,) = registered(("a", function))
        return handler.kind

    assert kind(book) == kind(functools.partial(plain, 1)) == kind(Bookkeeper()) == "sync"
    assert kind(book_async) == kind(functools.partial(functools.partial(awaited), 1)) == "async"
    assert kind(wrapped) == kind(Caller()) == kind(Bookkeeper().later) == "async"


def test_a_handler_is_named_for_its_module_and_function() -> None:
    """Message ids, logs and fault points carry this name."""
    (handler,) = registered(("a", functools.partial(book)))
    assert handler.name == f"{__name__}.book"


def test_functions_that_share_a_name_are_told_apart_in_order() -> None:
    """Message ids are made from the name: two closures must not make the same one; one function keeps its own."""

    def closure() -> Callable[[Any, Any], None]:
        def inner(tx: Any, event: Any) -> None: ...

        return inner

    first, second, third = closure(), closure(), closure()
    handlers = registered(("a", first), ("a", second), ("b", second), ("a", third))
    base = f"{__name__}.{first.__qualname__}"
    assert [handler.name for handler in handlers] == [base, f"{base}#2", f"{base}#2", f"{base}#3"]


def test_include_adds_the_handlers_of_another_in_its_order() -> None:
    """Handlers may live in modules that know no inbox."""
    handlers = registered(("a", book))
    handlers.include(registered(("a", tell), ("b", book)))
    assert [(handler.pattern.text, handler.function) for handler in handlers] == [
        ("a", book),
        ("a", tell),
        ("b", book),
    ]


def test_the_same_function_for_the_same_type_twice_is_refused() -> None:
    """Nobody means to run a function twice; the text names both."""
    handlers = registered(("a", book))
    with pytest.raises(ConfigurationError, match=r"\.book is registered twice for 'a'"):
        handlers.on("a")(book)
    assert len(list(handlers)) == 1


@pytest.mark.parametrize("event_types", [("a", "a"), ("a", "*"), ("x.*", "x.y"), ("*", "x.*")])
def test_def_and_async_def_on_one_event_are_refused(event_types: tuple[str, str]) -> None:
    """One transaction belongs to one kind of connection."""
    for functions in ((book, book_async), (book_async, book)):
        handlers = registered((event_types[0], functions[0]))
        with pytest.raises(ConfigurationError, match="would share the transaction") as raised:
            handlers.on(event_types[1])(functions[1])
        assert "(sync)" in str(raised.value)
        assert "(async)" in str(raised.value)
        assert repr(event_types[1]) in str(raised.value)


def test_def_and_async_def_on_different_events_are_fine() -> None:
    """They never meet."""
    assert len(list(registered(("a", book), ("b.*", book_async), ("c", tell)))) == 3


@pytest.mark.parametrize("event_types", [(), (None,), ("a", 3), (book,)])
def test_on_without_types_is_refused_with_an_example(event_types: tuple[Any, ...]) -> None:
    """``@endpoint.on`` without parentheses is the commonest slip; so is a type that is no text."""
    with pytest.raises(ConfigurationError, match=r'@endpoint\.on\("invoice\.paid"\)'):
        Handlers().on(*event_types)


def takes_one(tx: Any) -> None:
    """Too few."""


def takes_three(tx: Any, event: Any, more: Any) -> None:
    """Too many."""


def takes_named(*, tx: Any, event: Any) -> None:
    """By name only."""


@pytest.mark.parametrize("function", [takes_one, takes_three, takes_named])
def test_a_function_that_cannot_be_called_as_a_handler_is_refused(function: Callable[..., Any]) -> None:
    """It would fail on the first event; it fails at registration instead, by name."""
    with pytest.raises(
        ConfigurationError, match=rf"\.{function.__name__} cannot be called as handler\(tx, event\)"
    ):
        Handlers().on("a")(function)


@pytest.mark.parametrize(
    "function", [lambda *args: None, lambda tx, event, more=None: None, lambda tx, *rest, **named: None]
)
def test_a_function_that_can_be_called_with_two_is_taken(function: Callable[..., Any]) -> None:
    """Whatever else it could take."""
    assert len(list(registered(("a", function)))) == 1


def yields(tx: Any, event: Any) -> Iterator[None]:
    """Calling it runs nothing."""
    yield


async def yields_async(tx: Any, event: Any) -> AsyncIterator[None]:
    """Calling it runs nothing either."""
    yield


@functools.wraps(yields)
def wraps_a_generator(tx: Any, event: Any) -> Any:
    """Wrapped, it still runs nothing."""
    return yields(tx, event)


@pytest.mark.parametrize("function", [yields, yields_async, wraps_a_generator, functools.partial(yields)])
def test_a_function_with_yield_is_refused(function: Callable[..., Any]) -> None:
    """P-ONCE: an event would be marked processed without its effect."""
    with pytest.raises(ConfigurationError, match="has yield in it"):
        Handlers().on("a")(function)


def test_a_set_based_handler_stands_alone() -> None:
    """One call for several events cannot share a transaction with handlers of single ones, whichever came first."""
    handlers = Handlers()
    handlers.on_batch("invoice.*")(book)
    with pytest.raises(ConfigurationError, match="a set-based handler stands alone") as raised:
        handlers.on("invoice.paid")(tell)
    assert all(name in str(raised.value) for name in (".book", ".tell", "'invoice.paid'"))
    with pytest.raises(ConfigurationError, match="stands alone"):
        registered(("invoice.paid", tell)).on_batch("*")(book)
    handlers.on("customer.created")(tell)
    assert [(handler.batch, handler.prepare) for handler in handlers] == [(True, None), (False, None)]


@pytest.mark.parametrize("option", ["pipeline", "prepare", "pipline"])
def test_a_set_based_handler_takes_no_options_of_single_ones(option: str) -> None:
    """It is told why, wherever it is registered."""
    given: Any = {option: True}
    with pytest.raises(ConfigurationError, match=f"^on_batch.. takes no {option}: .* one statement"):
        Handlers().on_batch("invoice.paid", **given)
    with pytest.raises(ConfigurationError, match=f"^on_batch.. takes no {option}: "):
        Inbox("postgresql://nowhere").endpoint("billing", Stripe("whsec_fake")).on_batch("a", **given)


def fetch(event: Any) -> str:
    """The half that runs outside the transaction."""
    return "object"


def test_a_handler_with_a_prepare_stage_takes_what_it_gives() -> None:
    """``prepare=`` makes a third argument, which the function must take."""
    handlers = Handlers()
    handlers.on("a", prepare=fetch)(takes_three)
    (handler,) = handlers
    assert handler.prepare is fetch
    assert handler.batch is False
    with pytest.raises(
        ConfigurationError, match=r"\.book cannot be called as handler\(tx, event, prepared\)"
    ):
        handlers.on("b", prepare=fetch)(book)
