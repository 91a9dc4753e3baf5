"""SNS signs inside the body, with a key whose certificate the body names; only SNS's own is fetched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import SNS, SNS_KEYS, SNS_TOPIC
from webhook_inbox import Inbox, Receipt
from webhook_inbox.errors import ConfigurationError, VerificationKeyError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, secrets_of
from webhook_inbox.sources import Identity, Rejected, Sns, Verified
from webhook_inbox.sources.fetched import Fetched
from webhook_inbox.testing.key_pairs import certificate_pair, ec_pair
from webhook_inbox.testing.signers import SIGNERS, Draft

SOURCE = Sns(SNS_TOPIC, certificates=SNS_KEYS.public)
URL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-fake.pem"
NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nowhere"


def body(
    *, at: int = NOW, signs_with: str = "", after: dict[str, Any] | None = None, **members: Any
) -> bytes:
    """Sign as SNS; what is given *after* is not signed."""
    payload = {name: value for name, value in (json.loads(SNS) | members).items() if value is not None}
    draft = Draft(
        body=json.dumps(payload).encode(), secret=signs_with or SNS_KEYS.private, event_id="", timestamp=at
    )
    made = json.loads(SIGNERS["sns"](draft).body) | (after or {})
    return json.dumps({name: value for name, value in made.items() if value is not None}).encode()


def refusal(sent: bytes, source: Sns = SOURCE) -> str:
    """Give the reason."""
    got = verdict(source, delivery(sent))
    assert isinstance(got, Rejected)
    return got.reason


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ({"Signature": None}, "signature_missing"),
        ({"Signature": ""}, "signature_missing"),
        ({"Signature": 1}, "signature_missing"),
        ({"Signature": "no base64"}, "signature_malformed"),
        ({"Signature": "AAAA"}, "signature_mismatch"),
        ({"SignatureVersion": "3"}, "signature_version"),
        ({"SignatureVersion": 2}, "signature_version"),
        ({"SignatureVersion": "1"}, "signature_mismatch"),
        ({"Message": "other"}, "signature_mismatch"),
        ({"Message": 1}, "signature_malformed"),
        ({"Message": None}, "signature_malformed"),
        ({"MessageId": "m-2"}, "signature_mismatch"),
        ({"Subject": None}, "signature_mismatch"),
        ({"Type": "SubscriptionConfirmation"}, "signature_malformed"),
        ({"Type": "Other"}, "signature_malformed"),
        ({"Type": ["Notification"]}, "signature_malformed"),
        ({"Timestamp": "2026-01-01T00:00:01.000Z"}, "signature_mismatch"),
    ],
)
def test_anything_but_a_whole_signature_is_refused(after: dict[str, Any], reason: str) -> None:
    """P-CALM: by its reason, without an exception."""
    assert isinstance(verdict(SOURCE, delivery(body())), Verified)
    assert refusal(body(after=after)) == reason


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "http://sns.us-east-1.amazonaws.com/x.pem",
        "https://sns.us-east-1.amazonaws.com.evil.example/x.pem",
        "https://sns.us-east-1.amazonaws.com@evil.example/x.pem",
        "https://evil.example/sns.us-east-1.amazonaws.com/x.pem",
        "https://sns.us-east-1.amazonaws.com:8443/x.pem",
        "https://sns.us-east-1.amazonaws.com/x.pem?a=b",
        "https://sns.us-east-1.amazonaws.com/../x.pem",
        "https://sns.us-east-1.amazonaws.com/x.txt",
        "https://sns.us-east-1.amazonaws.com/x.pem\n",
        "https://sns.us-east-1.amazonaws.com.cn/x.pem",
        "https://sns.eu-west-1.amazonaws.com/x.pem",
        "https://bucket.us-east-1.amazonaws.com/x.pem",
        "https://SNS.us-east-1.amazonaws.com/x.pem",
    ],
)
def test_a_stranger_cannot_have_anything_else_fetched(url: object) -> None:
    """P-CALM: only https, only SNS, only the region of a topic that is configured; refused without asking anybody."""
    asked: list[str] = []
    sent = body(after={"SigningCertURL": url})
    assert received(sent, asked, SNS_KEYS.public.encode()).status == 400
    assert asked == []
    assert refusal(sent) == "signature_malformed"


@pytest.mark.parametrize("topic", [None, 7, ["x"], "", SNS_TOPIC + "x", SNS_TOPIC.upper()])
def test_who_does_not_name_the_topic_has_nothing_fetched(topic: object) -> None:
    """SNS has a certificate for whatever name a stranger makes up to be asked for, but the topic is not guessed."""
    asked: list[str] = []
    receipt = received(body(after={"TopicArn": topic}), asked, SNS_KEYS.public.encode())
    assert (receipt.status, receipt.reason, asked) == (400, "secret_unknown", [])


def certificates(source: Sns, of: Delivery) -> tuple[Secret, ...]:
    """Ask the source as the runtime does for each delivery."""
    assert callable(source.secrets)
    found = source.secrets(of)
    return secrets_of(found, setting="test") if found else ()


def received(sent: bytes, asked: list[str], content: bytes | None) -> Receipt:
    """Give an inbox's answer whose source fetches; its database cannot be reached."""

    def fetching(url: str) -> bytes | None:
        asked.append(url)
        if content == b"":
            raise VerificationKeyError("fake outage")
        return content

    inbox = Inbox(NO_DATABASE, connection_wait_seconds=0.5)
    inbox.endpoint("sns", Sns(SNS_TOPIC, tolerance_seconds=10**10, fetched=Fetched(fetching)))
    try:
        return inbox.receive_sync("sns", method="POST", url="https://h/sns", headers=[], body=sent)
    finally:
        inbox.close()


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 503, "verification_key"),
        (None, 400, "secret_unknown"),
        (b"no certificate", 503, "configuration"),
        (certificate_pair("other.fake.test").public.encode(), 400, "signature_mismatch"),
    ],
)
def test_a_certificate_that_cannot_be_had_is_no_reason_to_lose_an_event(
    content: bytes | None, status: int, reason: str
) -> None:
    """Unreachable: 503, and SNS sends again; one that SNS does not know, or another's: refused."""
    asked: list[str] = []
    receipt = received(body(), asked, content)
    assert (receipt.status, receipt.reason) == (status, reason)
    assert asked == [URL]


def test_the_certificate_that_the_body_names_is_fetched_once() -> None:
    """And the event says by which one it was believed."""
    asked: list[str] = []

    def fetching(url: str) -> bytes:
        asked.append(url)
        return SNS_KEYS.public.encode() + b"\n"

    source = Sns([SNS_TOPIC], fetched=Fetched(fetching))
    for _ in range(2):
        sent = delivery(body())
        assert verdict(source, sent, certificates(source, sent)) == Verified(
            "SimpleNotificationService-fake.pem"
        )
    assert asked == [URL]
    assert certificates(source, delivery(b"no JSON")) == ()


def test_a_certificate_counts_only_while_it_is_valid() -> None:
    """By this host's clock at the arrival."""
    for since, until, believed in ((2020, 2100, True), (2020, 2025, False), (2027, 2100, False)):
        pair = certificate_pair("dated.fake.test", since=since, until=until)
        source = Sns(SNS_TOPIC, certificates=pair.public)
        got = verdict(source, delivery(body(signs_with=pair.private)))
        assert isinstance(got, Verified) is believed


def test_another_s_topic_is_refused_though_sns_signed_for_it() -> None:
    """Everybody has topics of their own, and SNS signs for all of them."""
    other = SNS_TOPIC.replace("Fake", "Other")
    assert refusal(body(TopicArn=other)) == "signature_mismatch"
    both = Sns([SNS_TOPIC, other], certificates=SNS_KEYS.public)
    assert isinstance(verdict(both, delivery(body(TopicArn=other))), Verified)


def test_a_subscription_to_be_confirmed_is_an_event() -> None:
    """Its handler opens ``SubscribeURL``; nobody else does."""
    members: dict[str, Any] = {
        "Type": "SubscriptionConfirmation",
        "Subject": None,
        "Token": "t",
        "SubscribeURL": "https://h/",
    }
    sent = delivery(body(**members))
    assert isinstance(verdict(SOURCE, sent), Verified)
    assert SOURCE.answer(sent, ()) is None
    (reading,) = SOURCE.identify(sent)
    assert isinstance(reading, Identity)
    assert (reading.event_id, reading.event_type) == ("m-1", "SubscriptionConfirmation")


@pytest.mark.parametrize("name", ["MessageId", "Subject", "TopicArn", "Type"])
def test_a_line_end_where_none_belongs_is_refused(name: str) -> None:
    """One signature would stand for two sets of members; in the message it is what people write."""
    members: dict[str, Any] = {name: f"{json.loads(SNS)[name]}\nx"}
    assert refusal(body(**members)) == "signature_malformed"
    cut = body(Message="a\nMessageId\nm-9\nSubject\ns", MessageId="m-1")
    assert isinstance(verdict(SOURCE, delivery(cut)), Verified)
    forged = json.loads(cut) | {"Message": "a", "MessageId": "m-9\nSubject\ns\nMessageId\nm-1"}
    assert refusal(json.dumps(forged).encode()) == "signature_malformed"


def test_a_time_that_is_none_is_refused_even_when_it_is_signed() -> None:
    """P-CALM; and one outside the tolerance is too late."""
    assert refusal(body(at=NOW - 7_201)) == "timestamp_out_of_tolerance"
    assert refusal(body(at=NOW + 7_201)) == "timestamp_out_of_tolerance"


@pytest.mark.parametrize(
    "topics", ["", [], "Fake", "arn:aws:sqs:us-east-1:123456789012:Fake", [SNS_TOPIC, "x"]]
)
def test_a_topic_that_is_none_is_refused_at_the_start(topics: Any) -> None:
    """Without a topic, anybody's would be believed."""
    with pytest.raises(ConfigurationError, match=r"Sns\(topics=\.\.\.\) must be ARNs"):
        Sns(topics)


@pytest.mark.parametrize("pem", ["fake", SNS_KEYS.private, ec_pair(1).public])
def test_a_certificate_that_is_none_is_refused_at_the_start(pem: str) -> None:
    """And is not shown."""
    with pytest.raises(ConfigurationError, match="is no certificate of an RSA key") as caught:
        Sns(SNS_TOPIC, certificates=pem)
    assert pem not in str(caught.value)


def test_china_has_hosts_of_its_own() -> None:
    """The partition of the topic decides."""
    topic = SNS_TOPIC.replace("arn:aws:sns:us-east-1", "arn:aws-cn:sns:cn-north-1")
    asked: list[str] = []

    def fetching(url: str) -> bytes | None:
        asked.append(url)
        return None

    source = Sns(topic, fetched=Fetched(fetching))
    for url in (
        "https://sns.cn-north-1.amazonaws.com.cn/x.pem",
        "https://sns.cn-north-1.amazonaws.com/x.pem",
    ):
        assert certificates(source, delivery(body(TopicArn=topic, after={"SigningCertURL": url}))) == ()
    assert asked == ["https://sns.cn-north-1.amazonaws.com.cn/x.pem"]
