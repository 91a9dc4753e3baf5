"""
Hand spans to OpenTelemetry where the app has set it up; where it has not, cost one look.

Nothing of OpenTelemetry is imported before that: whoever sets a tracer provider has imported the API. No span records
an exception, whose text may quote a payload: its type is all that is told (P-QUIET). What the app's tracer raises, a
sampler's or a span processor's, is logged and ends here: nothing but the span may fail by it (P-FLOW).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from webhook_inbox.model.failure import describe
from webhook_inbox.model.steering import STEERING
from webhook_inbox.telemetry.events import SPAN_LOST

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

SCOPE = "webhook_inbox"
ERROR_TYPE = "error.type"
#: What of a trace travels with an event or a message. Source: W3C Trace Context, "Trace Context HTTP Headers Format".
TRACE_HEADERS = ("traceparent", "tracestate")
Kind: TypeAlias = Literal["client", "consumer"]
Attribute: TypeAlias = str | int
Opened: TypeAlias = "AbstractContextManager[Span | None]"

#: What stands for every span where nobody wants one.
OFF: Opened = nullcontext()


def tracer() -> Tracer | None:
    """Give what makes our spans; None where the app has set no tracer provider."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    try:
        provider = api.get_tracer_provider()
        return None if isinstance(provider, api.ProxyTracerProvider) else _tracer_of(provider)
    except Exception as error:  # noqa: BLE001 - whatever the app's tracing raises
        SPAN_LOST.log(describe(error))
        return None


@contextmanager
def harmless() -> Iterator[None]:
    """Log what the app's tracer raises within the block, and go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as above
        SPAN_LOST.log(describe(error))


@lru_cache(maxsize=4)
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer(SCOPE)


@contextmanager
def current_span(
    tracer: Tracer,
    name: str,
    kind: Kind,
    attributes: Mapping[str, Attribute],
    causes: Iterable[Mapping[str, str]],
) -> Iterator[Span | None]:
    """
    Open a span, the current one while the block runs, linked to the spans that the headers *causes* name.

    What the block raises makes it a failed one, unless a handler steers by it. Where the tracer fails, there is none.
    """
    opened = ExitStack()
    span = None
    with harmless():
        span = opened.enter_context(_started(tracer, name, kind, attributes, causes))
    try:
        yield span
    except STEERING:
        raise
    except BaseException as error:
        if span is not None:
            fail(span, f"{type(error).__module__}.{type(error).__qualname__}")
        raise
    finally:
        with harmless():
            opened.close()


def _started(
    tracer: Tracer,
    name: str,
    kind: Kind,
    attributes: Mapping[str, Attribute],
    causes: Iterable[Mapping[str, str]],
) -> AbstractContextManager[Span]:
    from opentelemetry.trace import SpanKind

    return tracer.start_as_current_span(
        name,
        kind=SpanKind[kind.upper()],
        attributes=attributes,
        links=[link for headers in causes for link in _link(headers)],
        record_exception=False,
        set_status_on_exception=False,
    )


def fail(span: Span, error_type: str) -> None:
    """Mark *span* as failed; *error_type* is an exception's class or a reason code, one of a few."""
    from opentelemetry.trace import StatusCode

    with harmless():
        span.set_attribute(ERROR_TYPE, error_type)
        span.set_status(StatusCode.ERROR)


def carried() -> dict[str, str]:
    """Give the ``TRACE_HEADERS`` of the current span, for who goes on with what is written now; none without one."""
    if tracer() is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    with harmless():
        TraceContextTextMapPropagator().inject(headers)
    return headers


def _link(headers: Mapping[str, str]) -> Iterator[Link]:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    told = {name: headers[name] for name in TRACE_HEADERS if name in headers}
    found = get_current_span(TraceContextTextMapPropagator().extract(told, Context())).get_span_context()
    if found.is_valid:
        yield Link(found)
