"""Name one of Django's databases, without importing Django."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Django:
    """
    Name the database of a Django project that an inbox shall use: ``Inbox(Django("default"))``.

    Handlers are ``def``, run on threads, and use the ORM inside ``transaction.atomic``; ``tx.conn`` is Django's own
    connection.

    Attributes:
        alias: Its name in ``settings.DATABASES``.
        testcase: Run inside the transaction that a ``django.test.TestCase`` has opened, on the test's own thread. This
            promises less: nothing is committed, so neither the commit of record and effect together (P-ONCE) nor the
            answer after it (P-ACK) is tried, no other session sees anything, and limits set for one event stay until
            the test ends. Outside of ``atomic()`` it refuses to run.
    """

    alias: str = "default"
    testcase: bool = False
