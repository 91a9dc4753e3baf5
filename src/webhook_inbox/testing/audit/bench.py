"""
Give the probes what they work with: new events, signed or forged, what was answered, and what effects they had.

What an event was owed is kept. When everything has been tried it is counted once more: a receiver that works off its
events later must not have doubled by then what was right at first.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.breakage import Failure
from webhook_inbox.testing.audit.effects import Effects
from webhook_inbox.testing.audit.sample import AuditEvent, Samples
from webhook_inbox.testing.audit.settings import Settings
from webhook_inbox.testing.audit.signing import Signatory
from webhook_inbox.testing.audit.verdict import Verdict, failed, passed, untried
from webhook_inbox.testing.audit.wire import Answer, Line, Pairs, Wire
from webhook_inbox.testing.signers import Signed

_TRIES_MAX = 8
_PAUSE_SECONDS_MAX = 2.0
_GATHER_SECONDS_MAX = 5.0
_NOT_IMPLEMENTED = 501
_JSON = ("content-type", "application/json")


class Bench:
    """
    Work on one receiver.

    Attributes:
        settings: What the user says about it.
        wire: Leads to it.
        signatory: Signs for it.
        samples: Makes events for it.
        effects: Counts them; None where the user gave no query.
        chance: Chooses what is left to chance.
        answers: Every answer to a genuine delivery that nothing stood in the way of.
        strangers: Every answer to what nobody signed, but for those that say no in another way.
        forged: The events that must have no effect.
        owed: The events that must have one, and the check that delivered each.
        failure: What met the failure that the user's commands make, once it was made.
        serial: Whether it was seen to serve one connection at a time.
        works_later: Whether it was seen to do its work after the answer.
        checking: The check that is being run.

    Raises:
        ConfigurationError: What was given does not fit together; the text says why.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._ends_at = time.monotonic() + settings.seconds_max
        self.wire = Wire(settings.url, owned=settings.owned)
        url = settings.public_url or settings.url
        self.signatory = Signatory(settings.source, settings.secret, settings.event_type, url)
        named_by = self.signatory.named_by(AuditEvent("", settings.payloads[0], {}))
        self.samples = Samples(settings.payloads, settings.fresh, seed=settings.seed, named_by=named_by)
        self.effects = Effects(settings.database, settings.effects_sql) if settings.effects_sql else None
        self.chance = random.Random(settings.seed)  # noqa: S311 - a choice, no secret
        self.answers: list[Answer] = []
        self.strangers: list[Answer] = []
        self.forged: list[AuditEvent] = []
        self.owed: list[tuple[str, AuditEvent]] = []
        self.failure: Failure | None = None
        self.serial = False
        self.works_later = False
        self.checking = ""

    @property
    def is_over(self) -> bool:
        """Say whether the audit has had its time: what is seen from then on counts for nothing."""
        return time.monotonic() >= self._ends_at

    def within(self, seconds: float) -> float:
        """Give *seconds*, or less where less are left."""
        return max(0.1, min(seconds, self._ends_at - time.monotonic()))

    @property
    def patience(self) -> float:
        """Give the seconds for which an answer is waited."""
        return self.within(self.settings.answer_limit)

    def deliver(self, event: AuditEvent, signed: Signed | None = None) -> Answer:
        """Deliver *event* once, genuinely signed unless told how, and wait as long as the provider does."""
        made = signed or self.signatory.sign(event)
        answer = self.wire.request("POST", headers_of(made), made.body, self.patience)
        self.answers.append(answer)
        return answer

    def until_acknowledged(
        self, event: AuditEvent, body: bytes | None = None, *, tries: int = _TRIES_MAX
    ) -> list[Answer]:
        """Deliver *event* as its provider would, again until it is acknowledged, with pauses of up to two seconds."""
        made: list[Answer] = []
        for attempt in range(tries):
            made.append(self.deliver(event, self.signatory.sign(event, body)))
            if made[-1].acknowledged or self.is_over:
                break
            time.sleep(min(_PAUSE_SECONDS_MAX, 0.1 * 2**attempt))
        return made

    def at_once(self, event: AuditEvent, copies: int) -> list[Answer]:
        """
        Deliver *copies* of *event* in the same moment: each holds its last byte back until all are there.

        Returns:
            An answer for each; fewer where the receiver lets fewer in.
        """
        signed = self.signatory.sign(event)
        head = self.wire.head("POST", headers_of(signed), len(signed.body))
        with self.wire.lines(copies) as lines, ThreadPoolExecutor(len(lines)) as threads:
            for line in lines:
                line.send(head + signed.body[:-1])
            together = threading.Barrier(len(lines))

            def end(line: Line) -> Answer:
                together.wait(_GATHER_SECONDS_MAX)
                line.send(signed.body[-1:])
                return line.answer(self.patience)

            made = list(threads.map(end, lines))
        self.answers += made
        return made

    def forge(self, event: AuditEvent, signed: Signed) -> Answer:
        """Deliver what the provider did not sign; no effect is owed."""
        self.forged.append(event)
        return self.strange("POST", headers_of(signed), signed.body)

    def strange(self, method: str, headers: Pairs, body: bytes, *, may_hang_up: bool = False) -> Answer:
        """Send what a stranger could send; to hang up in place of an answer is no failure where it is said so."""
        answer = self.wire.request(method, headers, body, self.patience)
        hung_up = may_hang_up and answer.silence == "connection closed"
        # RFC 9110, 15.6.2: how a server says that it knows no such method; nothing has failed.
        method_unknown = method != "POST" and answer.status == _NOT_IMPLEMENTED
        if not (hung_up or method_unknown):
            self.strangers.append(answer)
        return answer

    def owes_one(self, event: AuditEvent, saw: str) -> Verdict:
        """Wait for the one effect of *event*, which was acknowledged; without a query, *saw* is all there is to say."""
        self.owed.append((self.checking, event))
        if self.effects is None:
            return passed(saw)
        found = self.effects_of(event)
        if found == 1:
            return passed(f"{saw}; one effect")
        if found is None:
            raise ConfigurationError("--database does not answer: nobody can count the effects")
        kind = "no effect" if found == 0 else f"{found} effects"
        return failed(
            f"{saw}; {kind} {'' if found else f'within {self.settings.effect_seconds:g} s'}".rstrip()
        )

    def effects_of(self, event: AuditEvent) -> int | None:
        """Wait for the effect of *event*, which was answered, and give how many there are; None: nobody can count."""
        if self.effects is None:
            return None
        found = self.effects.settled(event, 1, 0)
        if not found:
            found = self.effects.settled(event, 1, self.within(self.settings.effect_seconds))
            self.works_later = self.works_later or bool(found)
        return found

    def counted(self) -> Verdict | None:
        """Give why effects cannot be counted; None where they can."""
        return None if self.effects else untried("needs --effects-sql")

    def close(self) -> None:
        """Give up the connection to its database."""
        if self.effects is not None:
            self.effects.close()


def headers_of(signed: Signed) -> Pairs:
    """Give the headers of a delivery; JSON, unless the signer says otherwise."""
    own = any(name == "content-type" for name, _ in signed.headers)
    return signed.headers if own else (_JSON, *signed.headers)


def told(answers: Sequence[Answer]) -> str:
    """Give ``200``, or ``7 x 200, 1 x 503``."""
    texts = [str(each) for each in answers]
    kinds = list(dict.fromkeys(texts))
    return kinds[0] if len(texts) == 1 else ", ".join(f"{texts.count(each)} x {each}" for each in kinds)
