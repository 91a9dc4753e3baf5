"""Build these pages as a site: ``make docs``. They are Markdown that reads as well without being built."""  # noqa: INP001 - Sphinx reads it as a file

from __future__ import annotations

from webhook_inbox import __version__

project = "webhook-inbox"
release = __version__
copyright = "the webhook-inbox authors"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
myst_heading_anchors = 4
# Links lead out of this folder too, to the examples; that none leads nowhere, tests/docs/test_reference.py holds.
suppress_warnings = ["myst.xref_missing"]
html_theme = "furo"
html_title = "webhook-inbox"
html_show_sourcelink = False
