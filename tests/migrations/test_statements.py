"""All SQL is in files of its own, complete, qualified, and free of anything that was put into its text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files

import psycopg
import pytest

from tests.fixtures.receiving import ODD_SCHEMA
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.migrations import SERVES_FROM, bootstrap, migration_script, migrations
from webhook_inbox.sql.statements import Statement, Statements, quoted_identifier
from webhook_inbox.testing.databases import apply_migrations

NAMES = [field.name for field in fields(Statements)]
FOLDER = files("webhook_inbox.sql")


def source(name: str) -> str:
    """A statement's file as it is written."""
    return FOLDER.joinpath("statements", f"{name}.sql").read_text()


def rendered(name: str, schema: str = ODD_SCHEMA) -> Statement:
    """A statement as drivers get it."""
    found: Statement = getattr(Statements.of(schema), name)
    return found


def test_every_file_is_a_field_and_every_field_a_file() -> None:
    """Nothing is loaded that nobody can name, and nothing lies about; in order, as people look for it."""
    on_disk = {entry.name.removesuffix(".sql") for entry in FOLDER.joinpath("statements").iterdir()}
    assert set(NAMES) == on_disk
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_gives_rows(name: str) -> None:
    """Whoever runs one asks for its rows; some drivers refuse to give what is not there."""
    text = re.sub(r"--.*", "", source(name)).strip()
    assert text.startswith(("SELECT", "WITH")) or "RETURNING" in text


def test_every_fragment_is_shared() -> None:
    """A part of a statement is a file of its own only where several have it, and says what it is for."""
    used = Counter(part for name in NAMES for part in set(re.findall(r"\{fragments/(\w+)\}", source(name))))
    on_disk = {entry.name.removesuffix(".sql") for entry in FOLDER.joinpath("fragments").iterdir()}
    assert set(used) == on_disk
    assert min(used.values()) > 1
    assert all(FOLDER.joinpath("fragments", f"{name}.sql").read_text().startswith("-- ") for name in used)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_what_it_is_for(name: str) -> None:
    """It opens with its purpose, and names every parameter that needs a unit; what is rendered is SQL alone."""
    assert source(name).startswith("-- ")
    text = rendered(name).text
    assert not any(line.startswith("--") for line in text.splitlines())
    assert "{schema}" not in text


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_knows_its_parameters(name: str) -> None:
    """Each place in the text is a parameter, once, in order of first use; a lone % is none."""
    statement = rendered(name)
    text = statement.text.replace("%%", "")
    places = re.findall(r"%(.{0,1}\w*\){0,1}s{0,1})", text)
    assert all(re.fullmatch(r"\(\w+\)s", place) for place in places)
    assert statement.parameters == tuple(dict.fromkeys(place[1:-2] for place in places))
    assert statement.name == name


@pytest.fixture(scope="module")
def narrow(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to our schema under an odd name, on which no name is found without its schema."""
    postgres = request.getfixturevalue("postgres")
    name = postgres.create()
    apply_migrations(postgres.dsn_of(name), ODD_SCHEMA)
    with psycopg.connect(postgres.dsn_of(name), autocommit=True) as conn:
        conn.execute("SET search_path = ''")
        yield conn
    postgres.drop(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_means_the_same_under_any_search_path(
    narrow: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    """The server resolves every table, column, function and type of it with an empty search_path."""
    statement = rendered(name)
    text = statement.text
    for number, parameter in enumerate(statement.parameters, start=1):
        text = text.replace(f"%({parameter})s", f"${number}")
    narrow.execute(f"PREPARE {name} AS {text.replace('%%', '%')}".encode())
    narrow.execute(f"DEALLOCATE {name}".encode())


@pytest.mark.parametrize(
    "name",
    ["", "a\x00b", "x" * 64, "é" * 32, "half \ud83d", "with $webhook_inbox$ in it", "$user"],
    ids=["empty", "NUL", "64 bytes", "64 bytes of 32", "half a pair", "our own quotes", "search_path's own"],
)
def test_a_name_that_cannot_be_a_schema_is_refused(name: str) -> None:
    """At once, by every way in, and saying what is allowed."""
    for use in (quoted_identifier, Statements.of, migrations, bootstrap, migration_script):
        with pytest.raises(ConfigurationError):
            use(name)


@pytest.mark.parametrize(
    "name", ["x" * 63, "é" * 31, "{schema}", "{schema_text}", "%(schema)s", ODD_SCHEMA, "a\nb"]
)
def test_a_name_is_quoted_once(name: str) -> None:
    """Whatever it holds, it stands in the text as one identifier, and nothing in it is replaced again."""
    quoted = '"' + name.replace('"', '""') + '"'
    assert quoted_identifier(name) == quoted
    assert f"CREATE SCHEMA {quoted};" in bootstrap(name)
    assert f"CREATE TABLE {quoted}.inbox (" in migrations(name)[0].text
    assert quoted.replace("%", "%%") + ".inbox" in rendered("find_event", name).text


def test_migrations_are_numbered_without_a_gap() -> None:
    """From 1, each with a name of its own and a floor that does not fall; a file that is none is not there."""
    steps = migrations("webhooks")
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    assert len({step.name for step in steps}) == len(steps)
    floors = [step.serves_from for step in steps]
    assert floors == sorted(floors)
    assert all(1 <= step.serves_from <= step.version for step in steps)
    assert set(SERVES_FROM) == {step.version for step in steps}
    on_disk = {entry.name for entry in FOLDER.joinpath("migrations").iterdir()}
    assert on_disk == {"bootstrap.sql", "remove.sql", "upgrade.sql"} | {
        f"{step.version:04}_{step.name}.sql" for step in steps
    }
    for step in steps:
        opening = (
            FOLDER.joinpath("migrations", f"{step.version:04}_{step.name}.sql").read_text().splitlines()[:2]
        )
        assert opening[0].startswith("-- ")
        assert re.match(r"-- (Transactional|Not transactional)\. ", opening[1])
