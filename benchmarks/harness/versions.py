"""Say which versions were measured."""

from __future__ import annotations

import json
import re
from importlib.metadata import distributions

from benchmarks.harness.environments import PACKAGE_JSON, PYTHON_HOME, REQUIREMENTS

#: What a receiver and a worker of ours run on.
OURS = ("granian", "httptools", "msgspec", "psycopg", "psycopg-pool", "uvicorn", "uvloop")


def versions() -> dict[str, dict[str, str]]:
    """Give the versions of ours and of the Python peers as they are installed, of the Node peers as they are pinned."""
    pinned = re.findall(r"^([a-z][\w-]*)", REQUIREMENTS.read_text(), re.MULTILINE)
    ours = {each.metadata["Name"].lower(): each.version for each in distributions()}
    folders = [str(each) for each in PYTHON_HOME.glob("lib/python*/site-packages")]
    peers = {each.metadata["Name"].lower(): each.version for each in distributions(path=folders)}
    return {
        "project": {name: ours[name] for name in OURS if name in ours},
        "peers": {name: peers[name] for name in pinned if name in peers},
        "node": json.loads(PACKAGE_JSON.read_text())["dependencies"],
    }
