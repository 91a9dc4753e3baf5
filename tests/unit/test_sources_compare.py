"""The source text itself: digests are compared in constant time and nothing shares state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import webhook_inbox.sources as room

FILES = sorted(Path(room.__file__).parent.glob("*.py"))
# Names under which a digest, a signature or a key travels through the verifiers.
SECRET_WORDS = ("digest", "signature", "candidate", "expected", "hmac", "key", "secret")
# Comparisons that involve such a word and tell nothing: they look at a form, or at the name of a public key.
HARMLESS = {
    ("standard_keys.py", "',' in secret"),
    ("jwt.py", "len(signature) != 2 * _COORDINATE_BYTES"),
    ("plaid.py", "bool(client_id) == (keys is not None)"),
    ("plaid.py", "key.key_id != token.key_id"),
    ("plaid.py", "answer.error_code == _UNKNOWN_KEY"),
}


def words(node: ast.AST) -> set[str]:
    """Give every name and attribute below *node*, in lower case."""
    found = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    found |= {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
    return {word.lower() for word in found}


def equalities(tree: ast.AST) -> list[ast.Compare]:
    """Give every comparison by ``==``, ``!=``, ``in`` or ``not in``."""
    kinds = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and any(isinstance(op, kinds) for op in node.ops)
    ]


def test_the_room_is_looked_at() -> None:
    """A moved folder must not make the checks below true of nothing."""
    assert {"signature.py", "stripe.py", "standard_keys.py", "scheme.py"} <= {path.name for path in FILES}


def test_no_digest_is_compared_by_equality() -> None:
    """P-QUIET: only ``hmac.compare_digest`` on whole bytes; ``==`` tells by its time how much of a forgery is right."""
    suspects = {
        (path.name, ast.unparse(node))
        for path in FILES
        for node in equalities(ast.parse(path.read_text()))
        if any(word in name for name in words(node) for word in SECRET_WORDS)
    }
    assert suspects == HARMLESS


def test_the_check_would_notice_one() -> None:
    """The innocent-looking line that this is about."""
    (found,) = equalities(ast.parse("if hmac.digest(key, signed, 'sha256') == candidate: ..."))
    assert any(word in name for name in words(found) for word in SECRET_WORDS)


def test_constant_time_comparison_stands_in_one_place() -> None:
    """And is given bytes."""
    calls = [
        (path.name, ast.unparse(node))
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "compare_digest"
    ]
    assert calls == [("signature.py", "hmac.compare_digest")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_module_keeps_state(path: Path) -> None:
    """What stands at the top of a module cannot change: no list, dict, set or cache in which a secret could stay."""
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    found = [
        ast.unparse(node)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, mutable)
    ]
    assert [line for line in found if not line.startswith("__all__")] == []
    assert "lru_cache" not in path.read_text()
    assert "functools.cache" not in path.read_text()
