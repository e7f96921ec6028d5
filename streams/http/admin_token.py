"""The admin token of an API: a bearer token (RFC 6750), compared in constant time."""

from __future__ import annotations

import hashlib
import hmac

from aiohttp import hdrs, web

from streams.http.problem import problem


class AdminToken:
    """Keeps the digest of the token, not the token."""

    def __init__(self, token: str) -> None:
        self._expected = hashlib.sha256(token.encode()).digest()

    def refusal(self, request: web.Request) -> web.Response | None:
        """None for a request with the token; otherwise its answer, a 401."""
        scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        if hmac.compare_digest(digest, self._expected) and scheme.lower() == "bearer":
            return None
        return _unauthorized(sent=scheme.lower() == "bearer")


def _unauthorized(*, sent: bool) -> web.Response:
    """Return the 401; only a request that sent a token gets an error code (RFC 6750, 3.1)."""
    challenge = 'Bearer realm="tidegate"'
    detail = "send the admin token as `Authorization: Bearer TOKEN`"
    if sent:
        detail = "the token sent is not this process's: send the one it was started with"
        challenge += ', error="invalid_token"'
    return problem(401, "unauthorized", detail, headers={hdrs.WWW_AUTHENTICATE: challenge})
