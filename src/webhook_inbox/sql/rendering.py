"""Fill the places of a script that is run as it stands, without parameters; see ``statements`` for the others."""

from __future__ import annotations

import re
from importlib.resources import files

from webhook_inbox.sql.statements import quoted_identifier

_PLACE = re.compile(r"\{([a-z_]+)\}")


def rendered(path: str, schema: str, **values: object) -> str:
    """
    Give the script at *path*, below this room, for *schema*.

    Args:
        values: What else it has places for, as it is to stand there.

    Raises:
        ConfigurationError: The name cannot be a PostgreSQL identifier.
    """
    text = files("webhook_inbox.sql").joinpath(*path.split("/")).read_text(encoding="utf-8")
    places = {"schema": quoted_identifier(schema), "schema_text": quoted_text(schema), **values}
    return _PLACE.sub(lambda found: str(places[found[1]]), text)


def quoted_text(text: str) -> str:
    """Quote *text* as a constant, whatever ``standard_conforming_strings`` says."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
