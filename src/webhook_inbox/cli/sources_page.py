"""Write the catalogue as a page: ``docs/reference/sources.md`` is what this prints."""

from __future__ import annotations

import re

from webhook_inbox.cli.sources import facts_of, row
from webhook_inbox.sources.catalogue import providers
from webhook_inbox.sources.source import Source

_HEAD = """# Sources

The providers that are known by name, and what is known about each. This page is made from the classes:
`webhook-inbox sources list --markdown` prints it, and a test compares the two.

```python
from webhook_inbox.sources import GitHub, Hmac, Stripe

billing = inbox.endpoint("billing", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]))
```

`secrets` is a string, several while one is being rolled, or a callable that is asked with each delivery. The signature
is checked on the bytes as received. `Hmac` describes any other sender that signs with an HMAC; what it cannot describe
is [a class of your own](../how-to/write-a-source.md).

A form-encoded body (GitHub, Slack, Mailgun, Twilio) is verified and stored as it came; `event.payload` is the JSON in
its member `payload`, or an object of its members.

*ID signed*: whether one signature covers the event id and the whole event. Where it does not, whoever holds one
delivery can send it under another id or with another content; a second body under an id that is known is kept as
evidence, and has no effect. *Sends again*: by itself, after a 5xx, and for how long; where it does not,
`mode="inline"` is refused. *Lists past events*: whether an API does; where [`webhook-inbox reconcile`](
../how-to/reconcile.md) asks it for what never arrived, how far back it can. What no page, SDK or source code says is
*not confirmed*: that does not mean "no".

| class | provider | id signed | sends again | answer within | lists past events |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """Give the whole page."""
    rows = [
        _row((f"[`{each.__name__}`](#{_anchor(each)})", f"`{each.provider}`", *row(each)[2:]))
        for each in providers()
    ]
    return _HEAD + "\n".join([*rows, *map(_section, providers())]) + "\n"


def _section(source: type[Source]) -> str:
    facts = source.facts
    if facts is None:
        return ""
    lines = [f"\n## {facts.title}", "", f"`{source.__name__}`", "", "| | | source |", "| --- | --- | --- |"]
    lines += [_row((heading, text, _link(stated))) for heading, text, stated in facts_of(source)]
    return "\n".join([*lines, "", *(f"- {weakness}" for weakness in facts.weaknesses)])


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _link(stated: str) -> str:
    """Make links of addresses."""
    return re.sub(r"https://[^\s;,]+", lambda found: f"<{found[0]}>", stated)


def _anchor(source: type[Source]) -> str:
    title = source.facts.title if source.facts else ""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
