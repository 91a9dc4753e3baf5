"""Say in libpq's words what other worlds connect to, for the sessions of our own beside their pools."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.errors import ConfigurationError

# asyncpg's names.
_SYNONYMS = {"database": "dbname", "ssl": "sslmode"}


def dsn_of_parts(dsn: object, parts: Mapping[str, object]) -> str | None:
    """
    Give the DSN of what *dsn* and, beside or instead of it, *parts* say: ``host``, ``dbname``, ``password``, ...

    Returns:
        None where libpq cannot be told so: an ``SSLContext``, a password that is a function.
    """
    keywords = {each.keyword.decode() for each in Conninfo.get_defaults()}
    known: dict[str, str] = {}
    for name, value in parts.items():
        keyword = _SYNONYMS.get(name, name)
        if keyword not in keywords or value is None:
            continue
        if isinstance(value, list | tuple):
            known[keyword] = ",".join(str(each) for each in value)
        elif isinstance(value, bool) and keyword == "sslmode":
            known[keyword] = "require" if value else "disable"
        elif isinstance(value, str | int | float):
            known[keyword] = str(value)
        else:
            return None
    try:
        if isinstance(dsn, str):
            known = {key: str(value) for key, value in conninfo_to_dict(libpq_dsn(dsn)).items()} | known
        # With nothing known, libpq goes by its environment variables, as the other world does.
        return libpq_dsn(make_conninfo("", **{"application_name": "webhook-inbox", **known}))
    except (psycopg.Error, ConfigurationError):
        return None
