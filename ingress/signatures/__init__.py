"""Signing schemes of incoming webhooks, checked over the raw bytes of the body."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingress.signatures import github, hmac_sha256, zendesk
from ingress.signatures.request import SignedRequest, Verified, Verifier
from streams.errors import SignatureError

__all__ = ["SCHEMES", "SignedRequest", "Verified", "Verifier", "verifier", "verify"]

SCHEMES: Mapping[str, Callable[[Mapping[str, Any]], Verifier]] = {
    "github": github.verifier,
    "hmac-sha256": hmac_sha256.verifier,
    "zendesk": zendesk.verifier,
}


def verifier(scheme: str, options: Mapping[str, Any]) -> Verifier:
    """A scheme under a source's options, ready to verify many requests.

    Raises:
        SignatureError: no such scheme, or an option does not fit it.
    """
    if scheme not in SCHEMES:
        raise SignatureError("unknown_scheme", f"no such scheme: use one of {', '.join(SCHEMES)}")
    return SCHEMES[scheme](options)


def verify(
    scheme: str,
    secrets: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str = "",
    method: str = "POST",
    now: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Verified:
    """Verify one request: header names in any case, `secrets` newest first, `now` in seconds.

    Raises:
        SignatureError: and nothing else.
    """
    request = SignedRequest(headers, body, url, method, time.time() if now is None else now)
    return verifier(scheme, options or {})(secrets, request)
