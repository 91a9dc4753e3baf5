"""Prove that handlers come to the same end whatever happens to their events."""

from __future__ import annotations

from webhook_inbox.testing.proof.proving import prove
from webhook_inbox.testing.proof.report import Finding, Proof
from webhook_inbox.testing.proof.samples import Sample

__all__ = ["Finding", "Proof", "Sample", "prove"]
