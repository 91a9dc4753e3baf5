"""An audit counts effects by a query that counts."""

from __future__ import annotations

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.effects import Effects
from webhook_inbox.testing.audit.sample import AuditEvent


@pytest.mark.parametrize("query", ["SELECT EXISTS (SELECT)", "SELECT 'two'", "SELECT NULL::integer"])
def test_what_does_not_count_is_refused(database: str, query: str) -> None:
    """Whether there is an effect says nothing of a second one."""
    effects = Effects(database, query)
    with pytest.raises(ConfigurationError, match="no whole number"):
        effects.count(AuditEvent("evt_audit", b"{}", {"event_id": "evt_audit"}))
    effects.close()
