"""
Install what the peers need, each language below ``build/``, and again only when the pins change.

Nothing of it reaches the project's own environment, in which this program and our own receiver run.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.processes import ROOT

PEERS = ROOT / "benchmarks" / "peers"
REQUIREMENTS = PEERS / "requirements.txt"
PACKAGE_JSON = PEERS / "package.json"
PYTHON_HOME = ROOT / "build" / "bench-venv"
NODE_HOME = ROOT / "build" / "bench-node"
_INSTALL_SECONDS_MAX = 600.0


def project_python() -> Path:
    """Give the interpreter in which this program runs, and webhook-inbox with it."""
    return Path(sys.executable)


def peers_python() -> Path:
    """Give the interpreter that has the Python peers; installs them where that has not been done."""
    python = PYTHON_HOME / "bin" / "python"
    stamp = _digest(REQUIREMENTS, sys.version)
    if not python.exists() or _stamp(PYTHON_HOME) != stamp:
        _tell("installing the Python peers into build/bench-venv")
        venv.create(PYTHON_HOME, with_pip=True)
        _run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
                str(REQUIREMENTS),
            ]
        )
        _write_stamp(PYTHON_HOME, stamp)
    return python


def peers_node() -> Path:
    """Give the folder whose ``node_modules`` has the Node peers; installs them where that has not been done."""
    if shutil.which("node") is None or (npm := shutil.which("npm")) is None:
        raise BenchmarkError(
            "the Node peers need node and npm, and one is not installed; leave them out with --only"
        )
    stamp = _digest(PACKAGE_JSON, "")
    if _stamp(NODE_HOME) != stamp:
        _tell("installing the Node peers into build/bench-node")
        NODE_HOME.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE_JSON, NODE_HOME)
        _run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"], cwd=NODE_HOME)
        _write_stamp(NODE_HOME, stamp)
    return NODE_HOME


def _digest(pins: Path, more: str) -> str:
    return hashlib.sha256(pins.read_bytes() + more.encode()).hexdigest()


def _stamp(home: Path) -> str:
    file = home / ".installed"
    return file.read_text() if file.exists() else ""


def _write_stamp(home: Path, stamp: str) -> None:
    (home / ".installed").write_text(stamp)


def _run(command: Sequence[str], *, cwd: Path = ROOT) -> None:
    ran = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=_INSTALL_SECONDS_MAX, check=False
    )
    if ran.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)} failed: {(ran.stderr or ran.stdout).strip()[-2000:]}")


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
