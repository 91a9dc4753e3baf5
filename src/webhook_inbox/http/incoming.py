"""Hold one HTTP request while it is in flight, and find the endpoint that it means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from webhook_inbox.http.limits import check_url
from webhook_inbox.http.messages import Scope
from webhook_inbox.http.route import name_in
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT

Find: TypeAlias = Callable[[str], EndpointPlan | None]
B_co = TypeVar("B_co", covariant=True)


class Incoming(Generic[B_co]):
    """
    Hold one request while it is in flight.

    Attributes:
        scope: Its head.
        body: What its body is read by.
        endpoint: None until it is found.
    """

    __slots__ = ("body", "endpoint", "scope")

    def __init__(self, scope: Scope, body: B_co) -> None:
        self.scope = scope
        self.body = body
        self.endpoint: EndpointPlan | None = None

    @property
    def name(self) -> str:
        """Give the endpoint's name for logs and metrics; never text that a stranger chose."""
        return self.endpoint.name if self.endpoint else UNKNOWN_ENDPOINT

    def seek(self, find: Find, name: str | None = None) -> EndpointPlan | Receipt:
        """
        Give the endpoint that is called *name*, or that the path names, or the refusal of a URL that leads nowhere.

        Promises: P-CALM.
        """
        if refusal := check_url(self.scope):
            return refusal
        name = name_in(self.scope) if name is None else name
        self.endpoint = find(name)
        return self.endpoint or answers.unknown_endpoint(name)
