"""Say that the story could not be told; what it showed would otherwise be an accident."""

from __future__ import annotations

from webhook_inbox.errors import InboxError


class StoryError(InboxError):
    """A receiver did not start, refused for ever, or never stood where the story wanted to strike."""

    code = "story"
