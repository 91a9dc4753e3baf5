"""Use the public names as a user does; type checkers read this file, nothing runs it."""

from __future__ import annotations
