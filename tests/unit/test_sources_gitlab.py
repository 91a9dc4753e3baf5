"""GitLab is believed by its signing token or by its secret token; the kind of secret decides which."""

from __future__ import annotations

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import GITLAB, GITLAB_SECRET
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import GitLab, Identity, Rejected, Unreadable, Verified
from webhook_inbox.testing.signing import sign_standard_webhooks

TOKEN = "fake-gitlab-token"
SIGNED = sign_standard_webhooks(GITLAB, GITLAB_SECRET, "id-signed", NOW)
SENT_ALONG = (("x-gitlab-token", TOKEN),)


def test_each_kind_of_secret_checks_its_own_and_nothing_else() -> None:
    """A signing token is never compared with a header, a secret token never signs."""
    for source, headers, believed in (
        (GitLab(GITLAB_SECRET), SIGNED, True),
        (GitLab(TOKEN), SENT_ALONG, True),
        (GitLab(GITLAB_SECRET), (("x-gitlab-token", GITLAB_SECRET),), False),
        (GitLab(GITLAB_SECRET), SENT_ALONG, False),
        (GitLab(TOKEN), SIGNED, False),
        (GitLab(TOKEN), (*SIGNED, ("x-gitlab-token", "no")), False),
        (GitLab(GITLAB_SECRET), (*SENT_ALONG, *SIGNED[:2]), False),
    ):
        assert isinstance(verdict(source, delivery(GITLAB, headers)), Verified) is believed


def test_while_one_replaces_the_other_either_is_believed() -> None:
    """With the label of the one that was used; whoever has neither is refused."""
    source = GitLab([TOKEN, GITLAB_SECRET])
    assert verdict(source, delivery(GITLAB, SIGNED)) == Verified("secret-2")
    assert verdict(source, delivery(GITLAB, SENT_ALONG)) == Verified("secret-1")
    assert verdict(source, delivery(GITLAB, [])) == Rejected("signature_missing", "no x-gitlab-token header")
    wrong = verdict(source, delivery(GITLAB, [("x-gitlab-token", f"{TOKEN} ")]))
    assert wrong == Rejected(
        "signature_mismatch", "the x-gitlab-token header carries none of the configured secrets"
    )


def test_a_delivery_under_the_header_names_of_svix_is_not_gitlab_s() -> None:
    """A captured one would verify under them, and be named by a header that its signature does not cover."""
    renamed = sign_standard_webhooks(GITLAB, GITLAB_SECRET, "id-signed", NOW, family="svix")
    forged = delivery(GITLAB, [*renamed, ("idempotency-key", "id-forged")])
    assert verdict(GitLab(GITLAB_SECRET), forged) == Rejected(
        "signature_missing", "no webhook-signature header"
    )


def test_the_id_is_signed_only_where_every_secret_is_a_signing_token() -> None:
    """Otherwise a second body under one id is kept as evidence."""
    assert GitLab(GITLAB_SECRET).signed_id
    assert not GitLab(TOKEN).signed_id
    assert not GitLab([GITLAB_SECRET, TOKEN]).signed_id
    assert not GitLab(lambda _: GITLAB_SECRET).signed_id


@pytest.mark.parametrize(
    ("headers", "event_id"),
    [
        ([*SIGNED, ("idempotency-key", "id-other")], "id-signed"),
        ([("idempotency-key", "id-key")], "id-key"),
        ([("idempotency-key", "id-key"), ("webhook-id", "id-unsigned")], "id-key"),
        (
            [("idempotency-key", "id-key"), ("x-gitlab-event-uuid", "no"), ("x-gitlab-webhook-uuid", "no")],
            "id-key",
        ),
    ],
)
def test_where_there_is_a_signature_the_id_is_the_signed_one(
    headers: list[tuple[str, str]], event_id: str
) -> None:
    """The header beside it, and the two that are no event's, name nothing."""
    readings = GitLab([GITLAB_SECRET, TOKEN]).identify(delivery(GITLAB, headers))
    assert readings == (Identity(event_id=event_id, event_type="push"),)


@pytest.mark.parametrize(
    ("body", "event_type"),
    [
        (b'{"object_kind":"merge_request","event_name":"x"}', "merge_request"),
        (b'{"event_name":"project_create"}', "project_create"),
        (b'{"other":1}', "System Hook"),
    ],
)
def test_the_type_is_the_one_in_the_body_where_there_is_one(body: bytes, event_type: str) -> None:
    """System hooks have no ``object_kind``; the header comes last, since nothing signs it."""
    headers = [("idempotency-key", "k"), ("x-gitlab-event", "System Hook")]
    assert GitLab(TOKEN).identify(delivery(body, headers)) == (Identity(event_id="k", event_type=event_type),)


def test_an_event_without_an_id_is_quarantined() -> None:
    """GitLab before 17.4."""
    (reading,) = GitLab(TOKEN).identify(delivery(GITLAB, SENT_ALONG))
    assert reading == Unreadable(reason="no event id at header:idempotency-key")
    (signed,) = GitLab(TOKEN).identify(delivery(b"no json", SENT_ALONG))
    assert isinstance(signed, Unreadable)


def test_a_secret_that_begins_like_a_signing_token_must_be_one() -> None:
    """A typing error must not turn into a secret token that nobody sends."""
    with pytest.raises(ConfigurationError, match="gitlab: secret-1 is not standard base64"):
        GitLab("whsec_not base64")
    assert GitLab(TOKEN).secret_headers == {"x-gitlab-token"}
