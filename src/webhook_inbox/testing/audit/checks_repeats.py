"""Check what becomes of copies, and of another order."""

from __future__ import annotations

from webhook_inbox.testing.audit.bench import Bench, told
from webhook_inbox.testing.audit.verdict import SERIAL, Check, Verdict, failed, passed, untried

_COPIES = 8
_ROUNDS = 3


def in_sequence(bench: Bench) -> Verdict:
    """Deliver one event three times, one after the other."""
    event = bench.samples.one()
    bench.until_acknowledged(event)
    answers = [bench.deliver(event) for _ in range(2)]
    saw = f"copies answered {told(answers)}"
    if not all(answer.acknowledged for answer in answers):
        return failed(saw)
    return bench.counted() or bench.owes_one(event, saw)


def at_once(bench: Bench) -> Verdict:
    """Deliver eight copies in the same moment, three times; what was refused is delivered again."""
    if missing := bench.counted():
        return missing
    verdict = passed("")
    for _ in range(_ROUNDS):
        event = bench.samples.one()
        answers = bench.at_once(event, _COPIES)
        if len(answers) == 1:
            return untried(SERIAL)
        saw = f"{len(answers)} copies answered {told(answers)}"
        if (
            not all(answer.acknowledged for answer in answers)
            and not bench.until_acknowledged(event)[-1].acknowledged
        ):
            return failed(f"{saw}; delivered again, it is never acknowledged")
        verdict = bench.owes_one(event, saw)
        if verdict.state == "failed":
            break
    return verdict


def reordered(bench: Bench) -> Verdict:
    """Deliver the payloads in their order, and others like them the other way round."""
    if not bench.samples.several:
        return untried("needs several payloads, in the order in which they happen")
    if bench.effects is None:
        return untried("needs --effects-sql")
    counts: list[list[int]] = []
    for turn in (1, -1):
        story = bench.samples.story()
        for event in story[::turn]:
            answers = bench.until_acknowledged(event)
            if not answers[-1].acknowledged:
                return failed(f"{'in order' if turn == 1 else 'reversed'}, one is answered {told(answers)}")
        expected = counts[0] if counts else [1] * len(story)
        found = [
            bench.effects.settled(event, least, bench.within(bench.settings.effect_seconds) if least else 0)
            for event, least in zip(story, expected, strict=True)
        ]
        counts.append([count or 0 for count in found])
    saw = f"effects in order {counts[0]}, reversed {counts[1]}"
    return passed(saw) if counts[0] == counts[1] else failed(saw)


CHECKS = (
    Check(
        "duplicate-in-sequence",
        "critical",
        "does the work of an event once, and acknowledges each copy",
        "Every provider delivers at least once: the second copy books again, or is refused until the endpoint is off.",
        "Keep the event's id under a unique key, in the transaction of the work; answer a copy with 2xx.",
        in_sequence,
    ),
    Check(
        "duplicate-at-once",
        "critical",
        "does the work of an event once when its copies come in the same moment",
        "Copies that look for the id before any has written it all find nothing, and all do the work.",
        "Insert the id first, under a unique key, in the transaction of the work; a copy waits there.",
        at_once,
        "mark after",
    ),
    Check(
        "order",
        "serious",
        "comes to the same end whatever comes first",
        "No provider promises an order: what came late is believed, or what came early is dropped.",
        "Let each event be enough by itself, or ask the provider how things stand now.",
        reordered,
    ),
)
