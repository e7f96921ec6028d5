"""Senders of which a layout and a preset say everything: one row each, in three tables."""

from __future__ import annotations

from collections.abc import Mapping

from ingress.schemes.scheme import Scheme
from ingress.schemes.senders import body_signers, time_signers, token_bearers

SENDERS: Mapping[str, Scheme] = {
    **body_signers.SENDERS,
    **time_signers.SENDERS,
    **token_bearers.SENDERS,
}
"""The rows by the name that a source's settings carry."""
