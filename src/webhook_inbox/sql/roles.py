"""
Say who may do what in the schema: a script that makes the roles, and what each of them needs.

``roles.sql`` is the one account of it; what a user lacks is found by reading the grants there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias, get_args

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.migrations import made
from webhook_inbox.sql.rendering import quoted_text, rendered
from webhook_inbox.sql.statements import quoted_identifier

Part: TypeAlias = Literal["receiver", "worker", "relay", "operator", "reader"]
PARTS: tuple[Part, ...] = get_args(Part)
OWNER = "owner"

_GRANT = re.compile(r"^GRANT ([^;]+?)\s+TO ([^;]+);", re.MULTILINE)
_RIGHT = re.compile(r"([A-Z]+)(?: \(([^)]+)\))?")
_OBJECT = re.compile(r"\{schema\}\.(\w+)")


def role_names(prefix: str) -> dict[str, str]:
    """
    Give the name of each role, the owner's first.

    Raises:
        ConfigurationError: *prefix* leaves no room for a PostgreSQL name.
    """
    names = {part: f"{prefix}_{part}" for part in (OWNER, *PARTS)}
    for name in names.values():
        quoted_identifier(name, kind="role")
    return names


def roles_script(schema: str, *, prefix: str, members: Iterable[tuple[str, str]] = ()) -> str:
    """
    Give the script that makes the roles of *schema*; one transaction, for psql or any driver that runs a script.

    Args:
        prefix: What the names of the roles begin with.
        members: Roles, ``receiver`` for instance, each with a user that is granted it.

    Raises:
        ConfigurationError: There is no such role, or a name cannot be a PostgreSQL identifier.
    """
    names = role_names(prefix)
    roles = {part: quoted_identifier(name) for part, name in names.items()}
    grants = []
    for part, user in members:
        if part not in roles:
            raise ConfigurationError(f"there is no role {part!r}; there are {', '.join(roles)}")
        grants.append(f"GRANT {roles[part]} TO {quoted_identifier(user, kind='user')};")
    return rendered(
        "roles.sql",
        schema,
        **roles,
        owner_text=quoted_text(names[OWNER]),
        parts_text=_texts(names[part] for part in PARTS),
        relations=_texts((*made("tables", schema), *made("views", schema))),
        functions=_texts(made("functions", schema)),
        members="\n".join(["", *grants, ""]) if grants else "",
    )


@cache
def needs(part: Part) -> tuple[tuple[str, str, str], ...]:
    """
    Give what *part* needs: names of tables and functions, each with a privilege and a column, which may be empty.

    What it has by being another part as well is included; ``USAGE`` is of a sequence.
    """
    text = files("webhook_inbox.sql").joinpath("roles.sql").read_text(encoding="utf-8")
    return tuple(dict.fromkeys(_needs(part, _GRANT.findall(text))))


def _needs(part: str, grants: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    for what, who in grants:
        if f"{{{part}}}" not in who:
            continue
        rights, on, objects = what.partition("ON ")
        if not on:
            yield from _needs(what.strip("{}"), grants)
        for right, columns in _RIGHT.findall(rights):
            for name in _OBJECT.findall(objects):
                yield from ((name, right, column) for column in re.findall(r"\w+", columns) or [""])


def _texts(names: Iterable[str]) -> str:
    return ", ".join(map(quoted_text, names))
