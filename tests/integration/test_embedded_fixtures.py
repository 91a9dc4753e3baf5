"""The fixtures keep tests apart: what one writes, no other sees."""

from __future__ import annotations

import psycopg
import pytest

from webhook_inbox.embedded import EmbeddedPostgres


def tables(dsn: str) -> set[str]:
    """The tables of our schema."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('webhooks') AND relkind IN ('r', 'p')"
        )
        return {name for (name,) in rows}


@pytest.mark.parametrize("turn", [1, 2])
def test_a_database_holds_the_schema_and_nothing_of_another_test(database: str, turn: int) -> None:
    """Each test gets a clone of the migrated template; both turns make the same table without meeting."""
    assert "inbox" in tables(database)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE only_mine (n integer)")


def test_an_empty_database_has_no_schema(empty_database: str, database: str) -> None:
    """``empty_database`` and ``database`` are two databases, and only the second was migrated."""
    assert tables(empty_database) == set()
    assert tables(database) != set()


def test_a_cluster_keeps_what_it_committed_through_a_kill(cluster: EmbeddedPostgres) -> None:
    """A commit that was answered is there after SIGKILL of every process of the server."""
    with psycopg.connect(cluster.dsn) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
    cluster.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(cluster.dsn)
    cluster.start()
    with psycopg.connect(cluster.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
