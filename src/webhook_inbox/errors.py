"""
Name everything that can go wrong, once, for whoever has to act on it.

    InboxError                         code: stable string; retryable: bool
    ├── ConfigurationError             wrong before any event came; the text says what to change
    ├── StoreError                     the database did not do what was asked
    │   ├── StoreUnavailableError      away, read-only, overloaded, or a commit of unknown fate: try again later
    │   ├── ConflictError              40001 or 40P01: the whole transaction may run again at once
    │   ├── KeyBusyError               another transaction holds the same event key
    │   ├── StatementError             the statement itself failed (constraint, syntax, privilege)
    │   └── SchemaVersionError         says which side to upgrade, and how
    ├── HandlerError                   the user's handler did not finish its event
    │   ├── HandlerFailedError         it raised
    │   ├── HandlerNotYetError         it asked to be run again later
    │   ├── HandlerTimeoutError        it took longer than handler_seconds_max
    │   └── TransactionEndedError      it committed, rolled back or aborted the transaction it was given
    ├── DestinationError               where messages are sent to cannot be reached, or has not what it needs
    ├── VerificationKeyError           a provider's key or certificate cannot be fetched: the delivery must come again
    ├── ArgumentError                  tx or inbox was given what cannot be stored; a ValueError
    ├── PayloadError                   the body is no JSON that can be read (raised where the payload is first used)
    ├── BodyConsumedError              the framework read the request body before the inbox could
    ├── MigrationError                 a migration did not apply; nothing of it is left
    └── EmbeddedPostgresError          the embedded server did not start or stop

What a *sender* does wrong is never an exception: a verifier returns a verdict and a receiver returns a receipt.
No message here ever holds a secret, an expected signature or a payload (P-QUIET).
"""

from __future__ import annotations

from typing import ClassVar, Self


class InboxError(Exception):
    """
    Carry a stable *code* and say whether the same call may succeed later (*retryable*).

    Attributes:
        wraps: Whether its text says no more than that there is a ``__cause__``, which says the rest.
    """

    code: ClassVar[str] = "inbox_error"
    retryable: ClassVar[bool] = False
    wraps: bool = False


class ConfigurationError(InboxError):
    """Refuse a set-up that cannot keep a promise; the message names the setting and the remedy."""

    code = "configuration"


class StoreError(InboxError):
    """
    Report what the database answered.

    Args:
        message: What happened, without the text of any row.
        sqlstate: The five characters the server sent, or None where the connection broke before it could.
    """

    code = "store"

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class StoreUnavailableError(StoreError):
    """Say that the database is away, read-only, overloaded, or that a commit's fate is unknown."""

    code = "store_unavailable"
    retryable = True


class ConflictError(StoreError):
    """Say that the server chose this transaction as the victim of a deadlock or serialization failure."""

    code = "conflict"
    retryable = True


class KeyBusyError(StoreError):
    """Say that another transaction still holds the lock this one waited for (55P03)."""

    code = "key_busy"
    retryable = True


class StatementError(StoreError):
    """Say that one statement failed for a reason of its own; the transaction is aborted."""

    code = "statement"
    wraps = True


class SchemaVersionError(StoreError):
    """
    Refuse a schema that this release cannot serve, naming the command or the upgrade that helps.

    Args:
        message: How it stands.
        sqlstate: As for ``StoreError``.
        migrate: What brings it up; empty where that does not help.
    """

    code = "schema_version"

    def __init__(self, message: str, *, sqlstate: str | None = None, migrate: str = "") -> None:
        super().__init__(f"{message}: run {migrate}" if migrate else message, sqlstate=sqlstate)
        self._found, self._migrate = message, migrate

    def helped_by(self, command: str) -> Self:
        """Give the same error where it is known which *command* brings this very schema up."""
        migrate = self._migrate and f"`{command}`"
        return type(self)(self._found, sqlstate=self.sqlstate, migrate=migrate)


#: What brings a schema up for which only the user knows how the Inbox is called.
MIGRATE_INBOX = "`webhook-inbox migrate MODULE:ATTRIBUTE` of this inbox, or inbox.migrate()"


class HandlerError(InboxError):
    """Say that a handler did not finish; its writes are rolled back."""

    code = "handler"
    retryable = True


class HandlerFailedError(HandlerError):
    """
    Say that a handler failed; what it raised is kept as ``__cause__``.

    Args:
        message: What it did, and what to do instead.
        wraps: See ``InboxError``.
    """

    code = "handler_failed"

    def __init__(self, message: str, *, wraps: bool = False) -> None:
        super().__init__(message)
        self.wraps = wraps


class HandlerNotYetError(HandlerError):
    """Say that a handler asked to be run again, in *retry_in_seconds*."""

    code = "not_yet"

    def __init__(self, message: str, *, retry_in_seconds: float) -> None:
        super().__init__(message)
        self.retry_in_seconds = retry_in_seconds


class HandlerTimeoutError(HandlerError):
    """Say that a handler took longer than ``handler_seconds_max``."""

    code = "handler_timeout"


class TransactionEndedError(HandlerError):
    """Say that a handler committed, rolled back or left aborted the transaction it was given (P-ONCE)."""

    code = "transaction_ended"


class DestinationError(InboxError):
    """Say why a destination of the relay takes nothing: it cannot be reached, or has not what it needs."""

    code = "destination"
    retryable = True


class VerificationKeyError(InboxError):
    """Say that a provider's key or certificate cannot be fetched now, so that nothing of its can be verified."""

    code = "verification_key"
    retryable = True


class ArgumentError(InboxError, ValueError):
    """Refuse what ``tx`` or ``inbox`` was given, by the rule that it breaks; never quotes it."""

    code = "argument"


class PayloadError(InboxError, ValueError):
    """Say why the bytes of an event cannot be read as JSON; they are kept unchanged."""

    code = "payload"


class BodyConsumedError(InboxError):
    """Say that the request body was read before the inbox could, so that its signature cannot be checked."""

    code = "body_consumed"


class MigrationError(InboxError):
    """Say which migration did not apply; its transaction is rolled back."""

    code = "migration"


class EmbeddedPostgresError(InboxError):
    """Say why the embedded PostgreSQL did not start or stop."""

    code = "embedded_postgres"
