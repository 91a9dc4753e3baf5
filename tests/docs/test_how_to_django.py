"""The Django page is a project: made as Django makes one, with the page's files, commands and test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.fixtures.benches import set_django_up
from tests.fixtures.cli import Cli
from webhook_inbox.sql.migrations import migrations

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "django.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL))
COMMANDS = re.findall(r"^\$ python (manage\.py .*)$", PAGE, flags=re.MULTILINE)
SECONDS_MAX = 120.0
MODELS = """
from django.db import models

class LedgerEntry(models.Model):
    event_id = models.TextField(primary_key=True)
    amount = models.BigIntegerField()
"""
SETTINGS = """
INSTALLED_APPS += ["shop"]
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.postgresql",
    "NAME": {dbname!r},
    "USER": {user!r},
    "HOST": {host!r},
    "PORT": {port!r},
    "OPTIONS": {{"connect_timeout": 5}},
}}}}
"""


class Project:
    """A Django project in *folder*."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python there; it must end well."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def write(self, name: str, text: str) -> None:
        """Add to a file, which need not be there yet."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if name.endswith("settings.py") and path.exists() else "") + text)


@pytest.fixture
def project(cli: Cli, empty_database: str) -> Iterator[Project]:
    """What ``startproject`` makes, with the page's files and an app of the user's; the test database is dropped."""
    made = Project(cli.folder, {**cli.environment, "STRIPE_WEBHOOK_SECRET": "whsec_fake_for_this_page"})
    made.python("-m", "django", "startproject", "project", ".")
    made.write("project/settings.py", SETTINGS.format(**{"user": "", **conninfo_to_dict(empty_database)}))
    made.write("shop/__init__.py", "")
    made.write("shop/models.py", MODELS)
    for name, text in FILES.items():
        made.write(name, text)
    made.python("manage.py", "makemigrations", "shop")
    yield made
    name = f"test_{conninfo_to_dict(empty_database)['dbname']}"
    with psycopg.connect(make_conninfo(empty_database, dbname="postgres"), autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL("DROP DATABASE IF EXISTS {}").format(psycopg.sql.Identifier(name)))


def test_the_pages_commands_make_the_project_ready(project: Project, empty_database: str) -> None:
    """Migrated, without a finding, with a worker that has nothing to do; and the program itself agrees."""
    said = {command: project.python(*command.split()) for command in COMMANDS}
    assert [command.split()[1] for command in said] == ["migrate", "check", "webhook_inbox", "webhook_inbox"]
    for name in (f"{step.version:04}_{step.name}" for step in migrations("webhooks")):
        assert f"Applying webhook_inbox.{name}... OK" in said["manage.py migrate"].stdout
    assert "no issues" in said["manage.py check --database default"].stdout
    assert "unprocessed  0" in said["manage.py webhook_inbox status"].stdout
    assert said["manage.py webhook_inbox worker --drain"].stdout == "nothing is due; 0 runs\n"
    project.environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
    checked = project.python("-m", "webhook_inbox", "migrate", "shop.webhooks:inbox", "--check")
    assert checked.stdout.endswith(": good\n")
    assert "No changes detected" in project.python("manage.py", "makemigrations", "--check").stdout


def test_the_pages_test_passes_under_pytest_django(project: Project) -> None:
    """In the transaction of a ``TestCase``, on the database that pytest-django makes by the app's migrations."""
    settings = "from project.settings import *\nWITHIN_TESTCASE = True\n"
    project.write("tests_settings.py", settings)
    project.environment |= {"DJANGO_SETTINGS_MODULE": "tests_settings", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = project.python(
        "-m", "pytest", "-q", "-p", "pytest_django.plugin", "-p", "no:cacheprovider", "test_shop.py"
    )
    assert "1 passed" in done.stdout


def test_every_setting_stands_on_the_page() -> None:
    """With its default, and no other does."""
    set_django_up()
    from webhook_inbox.django.conf import DEFAULTS

    rows = re.findall(r"^\| `(WEBHOOK_\w+)` \| `(.*?)` \|", PAGE, flags=re.MULTILINE)
    assert {name: ast.literal_eval(default) for name, default in rows} == DEFAULTS


def test_every_check_stands_on_the_page() -> None:
    """And in the module, and no other does."""
    from webhook_inbox.django import checks

    source = Path(checks.__file__).read_text()
    emitted = set(re.findall(r'id="webhook_inbox\.(\w\d+)"', source))
    assert emitted == set(re.findall(r"^\| `webhook_inbox\.(\w\d+)`", source, flags=re.MULTILINE))
    assert emitted == set(re.findall(r"^\| `webhook_inbox\.(\w\d+)`", PAGE, flags=re.MULTILINE))
