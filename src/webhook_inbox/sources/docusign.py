"""Recognise DocuSign Connect: HMAC-SHA256 of the body in base64, a numbered header for each active key."""

from __future__ import annotations

from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

KEYS_MAX = 100
_RECEIVERS = "third party: what receivers use"


class DocuSign(Provider):
    """
    Believe what DocuSign Connect signed with one of *secrets*.

    DocuSign signs with every active key, each in a header of its own; one match is enough.

    Args:
        secrets: A Connect HMAC key of the account; several while one is being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "docusign"
    scheme = scheme_of(
        header="X-DocuSign-Signature", spread="numbered", signatures_max=KEYS_MAX, encoding="base64"
    )
    naming = naming_of(
        event_id=("$.data.envelopeId", "$.event", "$.generatedDateTime"),
        event_type="$.event",
        created="$.generatedDateTime",
    )
    facts = Facts(
        title="DocuSign Connect",
        signature=Fact(
            "`X-DocuSign-Signature-1` to `-100: BASE64`, HMAC-SHA256 of the body, one for each active key",
            DIRECTORY,
        ),
        secret=Fact("text; up to 100 keys are active at once", DIRECTORY),
        event_id=Fact(
            "none is confirmed. Envelope, `event` and `generatedDateTime` together are the id", _RECEIVERS
        ),
        event_type=Fact("the body's `event`", DIRECTORY),
        window=Fact("no time is signed", DIRECTORY),
        answer=Fact("not confirmed"),
        retries=Fact("there are some; their schedule is not confirmed", "DocuSign, Republish Connect events"),
        past_events=Fact(
            "the Connect event log, and `PUT /v2.1/accounts/{id}/connect/envelopes/retry_queue`",
            "DocuSign, Republish Connect events",
        ),
        list_api=True,
        weaknesses=(
            "Set the configuration to JSON: a body in XML is authentic but not read, and is quarantined.",
            "No time is signed, and no id is sent: should a retry bear another generatedDateTime, it is another event.",
            "What is not about an envelope has no id here, and is quarantined.",
        ),
    )
