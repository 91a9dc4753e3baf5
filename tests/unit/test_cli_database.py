"""P-QUIET: where a database is, and why it cannot be reached, is said without a piece of its password."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from webhook_inbox.cli.database import reason
from webhook_inbox.drivers.psycopg_settings import libpq_dsn, place


@pytest.mark.parametrize(
    ("dsn", "where"),
    [
        ("postgresql://bob:secret@db.example:5433/shop", "the database shop at db.example:5433"),
        ("postgresql://bob@db.example/shop", "the database shop at db.example"),
        ("postgresql://bob@a,b:1/shop", "the database shop at a,b"),
        ("host=/var/run/postgresql dbname='my shop'", "the database my shop at /var/run/postgresql"),
        ("postgresql:///shop", "the database shop"),
        ("user=bob password=secret", "the database"),
        ("dbname='shop password=secret'", "the database"),
    ],
)
def test_a_place_is_named_as_people_know_it(dsn: str, where: str) -> None:
    """Name, host and port; neither user nor password."""
    assert place(libpq_dsn(dsn)) == where


@pytest.mark.parametrize("password", ["73310/x", "73310/7", "x@73310", "73310@x", "73310/x@y", "73310#x"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+asyncpg"])
def test_a_password_that_was_not_escaped_is_not_taken_for_a_place(password: str, scheme: str) -> None:
    """The driver reads a piece of it as host, port or name; then none of them is said."""
    assert "73310" not in place(libpq_dsn(f"{scheme}://bob:{password}@db.example/shop"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("postgres://bob@db/shop?sslmode=require", {"sslmode": "require"}),
        ("postgresql+asyncpg://bob@db/shop", {}),
        (
            "postgresql+psycopg://bob@db/shop?application_name=a&sslmode=require",
            {"application_name": "a", "sslmode": "require"},
        ),
        (
            "postgresql+asyncpg://bob@db/shop?ssl=require&prepared_statement_cache_size=0",
            {"sslmode": "require"},
        ),
        ("postgresql+asyncpg:///shop?host=db&user=bob&ssl=verify-full", {"sslmode": "verify-full"}),
    ],
)
def test_the_urls_of_other_worlds_are_understood(given: str, meant: dict[str, str]) -> None:
    """What a SQLAlchemy app has in its environment serves, whatever it says to another driver than libpq."""
    found = conninfo_to_dict(libpq_dsn(given))
    wanted = {"host": "db", "user": "bob", "dbname": "shop", "application_name": "webhook-inbox"} | meant
    assert {name: found.get(name) for name in wanted} == wanted
    assert ("sslmode" in found) == ("sslmode" in meant)


def test_a_question_mark_in_a_password_begins_no_options() -> None:
    """The driver reads it as part of the password, and so do we."""
    found = conninfo_to_dict(libpq_dsn("postgresql+asyncpg://bob:73310?x@db.example/shop"))
    assert (found["password"], found["host"], found["dbname"]) == ("73310?x", "db.example", "shop")


@pytest.mark.parametrize(
    ("dsn", "why"),
    [
        ("postgresql://bob:secret@127.0.0.1:1/shop", "nothing listens there"),
        ("postgresql://bob:secret@/shop?host=/nowhere", "nothing listens there"),
        ("postgresql://bob:secret@db.invalid/shop", "the host's name is not known"),
    ],
)
def test_the_drivers_reason_is_told_in_our_words(dsn: str, why: str) -> None:
    """As the driver really raises it."""
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(libpq_dsn(dsn))
    assert reason(caught.value) == why


def test_an_unknown_reason_is_not_quoted() -> None:
    """It might hold anything."""
    assert reason(OSError("secret")) == "the connection failed"
