"""Run the command line as ``python -m webhook_inbox``."""

from __future__ import annotations

from webhook_inbox.cli.main import main

if __name__ == "__main__":
    main()
