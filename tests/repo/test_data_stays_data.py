"""What came from outside stays data: nothing in the package makes code, objects or SQL of it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "webhook_inbox"
#: They turn text or bytes into something that runs, or that runs while it is made.
EXECUTES = {"eval", "exec", "compile", "__import__"}
LOADS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "jinja2", "code", "codeop"}
#: A proof restores the tables of a test's database, whose names it has from the catalogue and quotes.
OF_TESTS = "testing/"


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its path."""
    return {
        file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def dangers(tree: ast.AST) -> list[str]:
    """What *tree* calls or imports that makes something run."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EXECUTES:
                found.append(name)
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.partition(".")[0] in LOADS]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in LOADS:
                found.append(module)
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                found.append("shell=True")
            case _:
                pass
    return found


def assembled(tree: ast.AST) -> list[str]:
    """The calls of *tree* that hand over a statement which is put together there and then."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"execute", "executemany", "execute_many", "fetch", "fetchrow"}
        and node.args
        and _is_assembled(node.args[0])
    ]


def _is_assembled(argument: ast.expr) -> bool:
    match argument:
        case ast.JoinedStr() | ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="encode")):
            return _is_assembled(inner)
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format" | "join" | "replace")):
            return True
        case _:
            return False


def test_nothing_that_was_read_is_executed() -> None:
    """Neither evaluated nor unpickled, nor rendered, nor handed to a shell (P-CALM)."""
    found = {name: told for name, tree in trees().items() if (told := dangers(tree))}
    assert found == {}


def test_no_statement_is_assembled() -> None:
    """A statement is a file, rendered for its schema once; values are its parameters (P-CALM)."""
    found = {
        name: told
        for name, tree in trees().items()
        if not name.startswith(OF_TESTS) and (told := assembled(tree))
    }
    assert found == {}


@pytest.mark.parametrize(
    "planted",
    [
        "eval(event.payload)",
        "from pickle import loads",
        "import yaml.cyaml",
        "run(['sh'], shell=True)",
    ],
)
def test_what_runs_would_be_noticed(planted: str) -> None:
    """Wherever it stands."""
    assert dangers(ast.parse(f"def f():\n    {planted}"))


@pytest.mark.parametrize(
    "planted",
    [
        "conn.execute(f'SELECT {name}')",
        "conn.execute('SELECT %s' % name)",
        "conn.execute('SELECT ' + name)",
        "conn.execute('SELECT {}'.format(name).encode())",
    ],
)
def test_a_statement_that_is_assembled_would_be_noticed(planted: str) -> None:
    """However it is done."""
    assert assembled(ast.parse(planted))
