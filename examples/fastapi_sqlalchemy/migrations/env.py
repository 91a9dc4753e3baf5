"""Run the revisions where DATABASE_URL leads."""

from __future__ import annotations

import os

from alembic import context
from models import Base
from sqlalchemy import create_engine

import webhook_inbox.alembic

engine = create_engine(os.environ["DATABASE_URL"])
with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_schemas=True,
        include_name=webhook_inbox.alembic.include_name,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
