"""Make the webhook inbox, and the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import webhook_inbox.alembic

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make both."""
    webhook_inbox.alembic.upgrade(op, to=10)
    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("invoice_id", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("currency", sa.String, nullable=False),
    )


def downgrade() -> None:
    """Take both away; refused while there are events."""
    op.drop_table("ledger_entries")
    webhook_inbox.alembic.downgrade(op)
