"""Every example of the page runs as it stands, on the server that it names: recorded, and worked off once."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.fixtures.http_servers import HttpServer, Kind, free_port, request, serving, signed
from tests.fixtures.receiving import stripe_event

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md").read_text(encoding="utf-8")
SECRET = "whsec_fake_frameworks_page"
BODY = stripe_event(type_="invoice.paid", data={"object": {"amount_paid": 4200}})
PROGRAMS = Path(sys.executable).parent
STOP_SECONDS_MAX = 20.0
EFFECT_SECONDS_MAX = 20.0

# What ``django-admin startproject`` writes, as far as it is needed.
PROJECT = {
    "shop/__init__.py": "",
    "shop/settings.py": """
from psycopg.conninfo import conninfo_to_dict
import os

parts = conninfo_to_dict(os.environ["WEBHOOK_INBOX_DATABASE_URL"])
SECRET_KEY = "fake"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "HOST": parts["host"],
        "PORT": parts["port"],
        "ATOMIC_REQUESTS": True,
    }
}
""",
    "shop/wsgi.py": "from django.core.wsgi import get_wsgi_application\n\napplication = get_wsgi_application()\n",
}


class Example(NamedTuple):
    """A command of the page, the files that stand above it, and where it takes deliveries."""

    command: str
    files: dict[str, str]
    paths: tuple[str, ...]


def examples() -> dict[str, Example]:
    """Read every command of the page, with the files of its section up to there."""
    paths = {
        "FastAPI": ("/webhooks/billing",),
        "Starlette": ("/webhooks/billing",),
        "FastAPI, in a route of your own": ("/stripe/billing",),
        "Litestar": ("/webhooks/billing",),
        "Flask": ("/webhooks/billing", "/stripe"),
        "Django": ("/webhooks/billing", "/stripe/"),
        "No framework": ("/billing",),
    }
    found: dict[str, Example] = {}
    for section in PAGE.split("\n## ")[1:]:
        title, files = section.partition("\n")[0], {}
        for kind, block in re.findall(r"```(python|console)\n(.*?)```", section, flags=re.DOTALL):
            if kind == "python" and block.startswith("# "):
                files[block[2:].partition("\n")[0]] = block
            elif kind == "console":
                command = block.removeprefix("$ ").strip()
                found[f"{title}: {command}"] = Example(
                    command, dict(files), paths.pop(title, ("/webhooks/billing",))
                )
    assert not paths, "a section of the page has no command"
    return found


EXAMPLES = examples()


def hooks() -> dict[str, str]:
    """Read the file that the examples share."""
    (block,) = re.findall(r"```python\n(# hooks\.py\n.*?)```", PAGE, flags=re.DOTALL)
    return {"hooks.py": block}


def bound(command: str, port: int) -> tuple[Kind, list[str]]:
    """Give the server of *command*, and *command* on a port of ours."""
    program, *arguments = shlex.split(command)
    kinds: dict[str, tuple[Kind, list[str]]] = {
        "uvicorn": ("uvicorn-httptools", ["--host", "127.0.0.1", "--port", str(port)]),
        "granian": ("granian", ["--host", "127.0.0.1", "--port", str(port)]),
        "hypercorn": ("hypercorn", ["--bind", f"127.0.0.1:{port}"]),
        "gunicorn": ("gunicorn", ["--no-control-socket", "--bind", f"127.0.0.1:{port}"]),
        "waitress-serve": ("waitress", ["--listen", f"127.0.0.1:{port}"]),
    }
    kind, options = kinds[program]
    return kind, [str(PROGRAMS / program), *options, *arguments]


def test_the_page_shows_every_server() -> None:
    """uvicorn, granian and hypercorn; gunicorn and waitress."""
    assert {bound(each.command, 1)[0] for each in EXAMPLES.values()} == {
        "uvicorn-httptools",
        "granian",
        "hypercorn",
        "gunicorn",
        "waitress",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_takes_a_delivery_and_its_worker_runs_the_handler_once(
    name: str, database: str, tmp_path: Path
) -> None:
    """Recorded with 200, a duplicate by every other way in, refused where it is forged; and it stops when told to."""
    example = EXAMPLES[name]
    for path, text in (PROJECT | hooks() | example.files).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    environment = {
        "WEBHOOK_INBOX_DATABASE_URL": url_of(database),
        "STRIPE_WEBHOOK_SECRET": SECRET,
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "PYTHONPATH": str(tmp_path),
    }
    port = free_port()
    kind, command = bound(example.command, port)
    with psycopg.connect(database, autocommit=True) as witness:
        (create,) = re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)
        witness.execute(create)
        with serving(
            command, kind, port, tmp_path / "log", folder=tmp_path, environment=environment
        ) as server:
            outcomes = [deliver(server, path) for path in example.paths]
            assert outcomes == [(200, "queued")] + [(200, "duplicate")] * (len(outcomes) - 1)
            forged = server.send(request(BODY, path=example.paths[0]))
            assert (forged.status, forged.json()["reason"]) == (400, "signature_missing")
            if "worker=True" in "".join(example.files.values()):
                wait_for_the_effect(witness)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(STOP_SECONDS_MAX) in {0, -signal.SIGTERM}
        worker = [str(PROGRAMS / "webhook-inbox"), "worker", "hooks:inbox", "--drain"]
        subprocess.run(worker, cwd=tmp_path, env=environment, check=True, timeout=60, capture_output=True)
        assert witness.execute("SELECT * FROM ledger_entries").fetchall() == [("evt_1", 4200)]
    assert "Traceback" not in (tmp_path / "log").read_text()


def wait_for_the_effect(witness: psycopg.Connection[Any]) -> None:
    """Wait until the worker within the server has run the handler; nothing but the table tells."""
    deadline = time.monotonic() + EFFECT_SECONDS_MAX
    while not witness.execute("SELECT FROM ledger_entries").fetchall():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def deliver(server: HttpServer, path: str) -> tuple[int, str]:
    """Deliver the event to *path*."""
    reply = server.send(request(BODY, path=path, headers=signed(BODY, secret=SECRET)))
    return reply.status, reply.json()["outcome"]


def url_of(dsn: str) -> str:
    """Write *dsn* with every part that Django needs."""
    parts = conninfo_to_dict(dsn)
    return " ".join(f"{key}={value}" for key, value in parts.items())
