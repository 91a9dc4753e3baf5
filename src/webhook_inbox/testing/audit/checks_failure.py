"""Check what becomes of an event that arrives while the receiver's work fails."""

from __future__ import annotations

from webhook_inbox.testing.audit.bench import Bench, told
from webhook_inbox.testing.audit.breakage import Failure, broken
from webhook_inbox.testing.audit.verdict import Check, Verdict, failed, passed, untried

_CLIENT_ERROR = 4
_DOUBLED = "failure-doubled"


def acknowledged(bench: Bench) -> Verdict:
    """See whether what was acknowledged during the failure is done after it."""
    failure = _failure(bench)
    if isinstance(failure, Verdict):
        return failure
    saw = f"answered {failure.during} during the failure"
    if not failure.during.acknowledged:
        return passed(saw)
    return _of_effects(failure.effects, f"{saw}; {{}} once it was mended", lost=failure.effects == 0)


def redelivered(bench: Bench) -> Verdict:
    """See whether what was refused during the failure is done when it comes again."""
    failure = _failure(bench)
    if isinstance(failure, Verdict):
        return failure
    if failure.during.acknowledged:
        return passed("nothing was refused, so nothing comes again")
    saw = f"refused with {failure.during}, then answered {told(failure.after)}"
    if not failure.after[-1].acknowledged:
        return failed(f"{saw}: never acknowledged")
    return _of_effects(failure.effects, f"{saw}; {{}}", lost=failure.effects == 0)


def done_once(bench: Bench) -> Verdict:
    """See whether what met the failure is done twice."""
    failure = _failure(bench)
    if isinstance(failure, Verdict):
        return failure
    doubled = failure.effects is not None and failure.effects > 1
    return _of_effects(failure.effects, "{} once it was mended", lost=doubled)


def answered(bench: Bench) -> Verdict:
    """See how the failure is told to the provider."""
    failure = _failure(bench)
    if isinstance(failure, Verdict):
        return failure
    saw = f"answered {failure.during}"
    status = failure.during.status
    return failed(saw) if status is not None and status // 100 == _CLIENT_ERROR else passed(saw)


def _of_effects(effects: int | None, saw: str, *, lost: bool) -> Verdict:
    if effects is None:
        return untried("needs --effects-sql")
    text = saw.format({0: "no effect", 1: "one effect"}.get(effects, f"{effects} effects"))
    return failed(text) if lost else passed(text)


def _failure(bench: Bench) -> Failure | Verdict:
    """Make it, once for all the checks that ask what became of it."""
    if not bench.settings.breaking:
        return untried("needs --break and --mend")
    if bench.failure is None:
        bench.failure = _made(bench)
    return bench.failure


def _made(bench: Bench) -> Failure:
    event = bench.samples.one()
    with broken(bench.settings.breaking, bench.settings.mending):
        during = bench.deliver(event)
    after = [] if during.acknowledged else bench.until_acknowledged(event)
    effects = bench.effects_of(event)
    if effects == 1 and bench.effects is not None:
        # Who works after the answer tries again after it, too: now, or by the end of the audit.
        if during.acknowledged or bench.works_later:
            effects = bench.effects.settled(event, 2, bench.within(bench.settings.still_seconds))
        bench.owed.append((_DOUBLED, event))
    return Failure(event, during, after, effects)


_ONE = "Commit the id and the work in one transaction, and answer 2xx only after its commit"

CHECKS = (
    Check(
        "failure-acknowledged",
        "critical",
        "loses nothing that it acknowledges while its work fails",
        "The provider never sends it again. Any failed insert was taken for a duplicate, "
        "or the answer came before the commit.",
        f"{_ONE}; only the unique key's own error (SQLSTATE 23505) means duplicate, all else is a 5xx.",
        acknowledged,
        "any error",
    ),
    Check(
        "failure-redelivered",
        "critical",
        "does the work of an event that failed when it comes again",
        "The id was kept and the work was not: the redelivery is called a duplicate, and the provider is content.",
        f"{_ONE}; a copy is answered by what became of the first.",
        redelivered,
        "mark first",
    ),
    Check(
        _DOUBLED,
        "critical",
        "does the work once, though it failed in between",
        "The work was kept and the id was not: the redelivery does it again.",
        f"{_ONE}.",
        done_once,
        "mark after",
    ),
    Check(
        "failure-answer",
        "serious",
        "never answers 4xx for a failure of its own",
        "Some providers take a 4xx for a refusal, and never send the event again.",
        "Answer 500, or 503 with Retry-After.",
        answered,
    ),
)
