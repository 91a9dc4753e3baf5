"""Hold the reference pages against the code: what is not documented fails, and so does what is documented and gone."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest

from webhook_inbox import errors
from webhook_inbox.errors import InboxError
from webhook_inbox.model.settings import Settings

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def rows(page: str) -> list[list[str]]:
    """Give the cells of every table row of *page*."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


def test_every_setting_is_documented_with_its_default() -> None:
    """Name and default of each setting stand in settings.md, and nothing else does."""
    documented = {cells[0].strip("`"): cells[1] for cells in rows("settings.md") if len(cells) == 3}
    actual = {
        field.name: str(field.default).lower() if isinstance(field.default, bool) else f"{field.default:g}"
        for field in fields(Settings)
    }
    assert documented == actual


def test_every_error_is_documented_with_its_code() -> None:
    """Name, code and retryable of each exception stand in errors.md, and nothing else does."""
    documented = {
        cells[0].strip("`"): (cells[1].strip("`"), cells[2] == "yes") for cells in rows("errors.md")
    }
    actual = {
        name: (kind.code, kind.retryable)
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, InboxError)
    }
    assert documented == actual


def test_every_table_and_column_is_documented(database: str) -> None:
    """Every table of the schema stands in schema.md, and every column of one with a section; nothing else does."""
    sections = (REFERENCE / "schema.md").read_text(encoding="utf-8").split("\n## ")
    cells = {
        section.split("\n")[0]: [
            line.split("|")[1] for line in section.splitlines() if line.startswith("| `")
        ]
        for section in sections
    }
    others = {cell.strip(" `") for cell in cells.pop("The others")}
    columns = {
        (heading.split("`")[1], name)
        for heading, names in cells.items()
        for cell in names
        for name in re.findall(r"`(\w+)`", cell)
    }
    described = {table for table, _ in columns}
    with psycopg.connect(database) as conn:
        tables = conn.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'webhooks' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        ).fetchall()
        found = conn.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'webhooks' AND table_name = ANY (%s)",
            [list(described)],
        ).fetchall()
    assert others | described == {row[0] for row in tables}
    assert {"inbox", "outbox", "sends"} <= described
    assert columns == set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_leads_nowhere(page: Path) -> None:
    """Every relative link of every page leads to a file, and its fragment to a heading of that file."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, fragment = target.partition("#")
        linked = (page.parent / file) if file else page
        assert linked.exists(), f"{page.name} links to {target}"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert fragment in anchors, f"{page.name} links to {target}"


def test_the_readme_example_is_a_program() -> None:
    """The Python of the README compiles, and every name that it imports from here exists."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec")
        for module, names in re.findall(
            r"^from (webhook_inbox[\w.]*) import (.+)$", block, flags=re.MULTILINE
        ):
            imported = __import__(module, fromlist=["*"])
            assert all(hasattr(imported, name.strip()) for name in names.split(","))
