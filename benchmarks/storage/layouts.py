"""
Hold the layouts: the product's own tables and statements, and what another layout changes of them.

What an index enforces or answers is enforced and answered in every layout; where it lies differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.ours import migrate
from benchmarks.harness.server import Database
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
from webhook_inbox.sql.statements import Statements

_SQL = Path(__file__).with_name("sql")
OURS = Statements.of(DEFAULT_SCHEMA)
_SETTLED = """
    SELECT count(*) FROM webhooks.inbox JOIN webhooks.bodies USING (received_at, id)
    WHERE state = 'processed' AND attempts = 1
"""
_SETTLED_APART = """
    SELECT count(*) FROM webhooks.inbox i JOIN webhooks.bodies USING (received_at, id)
    JOIN webhooks.queue q ON q.id = i.id
    WHERE q.state = 'processed' AND q.attempts = 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """
    Hold one layout.

    Attributes:
        tables: What is changed of the migrated tables.
        record: Inserts many events; gives their ids where they are born claimed.
        claim: Takes due events; empty where they are born claimed.
        settle: Marks claimed events processed; empty where nothing is settled.
        settled: Counts the events that are there with their bytes, and marked at their first attempt.
    """

    name: str
    title: str
    setting: str
    tables: str = ""
    record: str = OURS.record_events.text
    claim: str = OURS.claim_events.text
    settle: str = OURS.settle_set.text
    settled: str = _SETTLED

    def make(self, database: Database) -> None:
        """Make the tables, and let only the run itself vacuum them."""
        migrate(database)
        if self.tables:
            database.execute(self.tables)
        database.execute(_NO_AUTOVACUUM)


def _sql(name: str) -> str:
    source = (_SQL / f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in source.splitlines() if not line.startswith("--"))


_NO_AUTOVACUUM = """
    DO $$
    DECLARE relation regclass;
    BEGIN
        FOR relation IN SELECT oid FROM pg_class WHERE relnamespace = 'webhooks'::regnamespace AND relkind = 'r' LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', relation);
        END LOOP;
    END $$
"""

ONE_TABLE = Layout(name="one_table", title="one table", setting="the product's tables and statements")
ONE_TABLE_ROOMY = Layout(
    name="one_table_roomy",
    title="one table, half of each page free, without `inbox_unfinished`",
    setting="the same, but for one index, which only the status command reads, and `fillfactor`",
    tables="DROP INDEX webhooks.inbox_unfinished; ALTER TABLE webhooks.inbox SET (fillfactor = 50)",
)
HOT_QUEUE = Layout(
    name="hot_queue",
    title="a hot queue beside it",
    setting="`storage/sql/hot_queue_*.sql`",
    tables=_sql("hot_queue_tables"),
    record=_sql("hot_queue_record"),
    claim=_sql("hot_queue_claim"),
    settle=_sql("hot_queue_settle"),
)
NARROW_STATE = Layout(
    name="narrow_state",
    title="the state in a narrow table of its own, for good",
    setting="`storage/sql/narrow_state_*.sql` upon the hot queue's",
    tables=HOT_QUEUE.tables + _sql("narrow_state_tables"),
    record=HOT_QUEUE.record,
    claim=HOT_QUEUE.claim,
    settle=_sql("narrow_state_settle"),
    settled=_SETTLED_APART,
)
BORN_CLAIMED = Layout(
    name="born_claimed",
    title="one table, born claimed",
    setting="`storage/sql/born_claimed_record.sql`: no claim",
    record=_sql("born_claimed_record"),
    claim="",
)
BYTES_ALONE = Layout(
    name="bytes_alone",
    title="the bytes alone, with a number beside them",
    setting="`storage/sql/bytes_alone_*.sql`: no key, no headers, no claim, no mark",
    tables=_sql("bytes_alone_tables"),
    record=_sql("bytes_alone_record"),
    claim="",
    settle="",
    settled="SELECT count(*) FROM webhooks.bytes_alone",
)
LAYOUTS = (ONE_TABLE, ONE_TABLE_ROOMY, HOT_QUEUE, NARROW_STATE, BORN_CLAIMED, BYTES_ALONE)
