"""What the shop keeps."""

from __future__ import annotations

from sqlalchemy import BigInteger
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Gather the shop's tables."""


class LedgerEntry(Base):
    """Hold one payment, in the currency's smallest unit, and the event that told of it."""

    __tablename__ = "ledger_entries"

    id: Mapped[int] = mapped_column(primary_key=True)
    event_id: Mapped[str]
    invoice_id: Mapped[str]
    amount: Mapped[int] = mapped_column(BigInteger)
    currency: Mapped[str]
