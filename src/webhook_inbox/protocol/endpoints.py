"""Say which endpoints there are in the database, and which of them are paused or limited."""

from __future__ import annotations

from webhook_inbox.model.endpoint_record import EndpointRecord
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.status import reading
from webhook_inbox.protocol.steps import All, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements


def list_endpoints(schema: str) -> Plan[tuple[EndpointRecord, ...]]:
    """
    List the endpoints that events have come to, and those that are paused or limited, by name.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    rows: list[Row] = yield All(sql.list_endpoints)
    yield Rollback()
    return tuple(map(EndpointRecord.of, rows))
