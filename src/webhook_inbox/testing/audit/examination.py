"""Run the checks on one receiver, one after the other, and grade it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.bench import Bench
from webhook_inbox.testing.audit.catalogue import CHECKS
from webhook_inbox.testing.audit.report import Report
from webhook_inbox.testing.audit.settings import Settings
from webhook_inbox.testing.audit.verdict import Check, Verdict, failed, untried

_TOO_LATE = "no time was left"


def audit(settings: Settings, told: Callable[[str], None] = lambda _: None) -> Report:
    """
    Examine a receiver from outside, as a provider and as a stranger.

    Some hundred requests are sent, one after the other but for copies that come at once: signed events, made out of
    the payloads, and what nobody signed. Nothing else is talked to but the database where effects are counted.

    Args:
        told: Hears the name of each check before it is run.

    Returns:
        A verdict for each check, and the grade.

    Raises:
        ConfigurationError: Nothing could be examined: nobody listens there, it is not this machine, or what was given
            does not fit together; the text says why.
    """
    _check(settings)
    began = time.monotonic()
    bench = Bench(settings)
    try:
        _look(bench)
        verdicts = _verdicts(bench, told)
        _count_again(bench, verdicts)
    finally:
        bench.close()
    return Report(
        verdicts=verdicts,
        seed=settings.seed,
        marked=bench.samples.run,
        requests=bench.wire.requests,
        seconds=time.monotonic() - began,
    )


def _check(settings: Settings) -> None:
    if not settings.payloads:
        raise ConfigurationError("there is nothing to audit with: give a payload as the provider sends it")
    if bool(settings.database) != bool(settings.effects_sql):
        raise ConfigurationError("--effects-sql and --database go together: what is counted, and where")
    if bool(settings.breaking) != bool(settings.mending):
        raise ConfigurationError("--break and --mend go together: what breaks must be mended")
    if unknown := settings.only - {check.id for check in CHECKS}:
        raise ConfigurationError(f"there is no check {', '.join(sorted(unknown))}")


def _look(bench: Bench) -> None:
    """Refuse to begin where nobody can be reached, or where the events of this seed have been before."""
    try:
        bench.wire.open().close()
    except socket.gaierror:
        raise ConfigurationError("the host of URL has no address") from None
    except ssl.SSLError as error:
        raise ConfigurationError(f"URL cannot be reached by TLS: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigurationError(f"nobody listens at URL: {type(error).__name__}") from None
    event = bench.samples.peek()
    if bench.effects is not None and bench.effects.settled(event, 0, 0) != 0:
        raise ConfigurationError(
            "the receiver has effects of these events, or --database does not answer: choose another --seed"
        )


def _verdicts(bench: Bench, told: Callable[[str], None]) -> dict[Check, Verdict]:
    verdicts: dict[Check, Verdict] = {}
    only = bench.settings.only
    for check in CHECKS:
        first = not verdicts
        if only and check.id not in only and not first:
            verdicts[check] = untried("not asked for")
        elif not first and verdicts[CHECKS[0]].state == "failed":
            verdicts[check] = untried("no genuine delivery went well")
        elif bench.is_over:
            verdicts[check] = untried(_TOO_LATE)
        else:
            told(check.id)
            verdicts[check] = _tried(bench, check)
    return verdicts


def _tried(bench: Bench, check: Check) -> Verdict:
    bench.checking = check.id
    try:
        verdict = check.probe(bench)
    except OSError:
        return failed("it takes no connection any more")
    # What nobody waited long enough for is no failure; but a receiver that has not answered once has had its time.
    return untried(_TOO_LATE) if bench.is_over and check is not CHECKS[0] else verdict


def _count_again(bench: Bench, verdicts: dict[Check, Verdict]) -> None:
    """Count what every event has come to by now; a receiver may have worked on it since."""
    if bench.effects is None:
        return
    checks = {check.id: check for check in verdicts}
    for name, event in bench.owed:
        found = bench.effects.settled(event, 1, 0)
        check = checks[name]
        if found not in {1, None} and verdicts[check].state == "passed":
            verdicts[check] = failed(f"{verdicts[check].saw}; {found} effects in the end")
