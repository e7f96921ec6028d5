"""Refuses calls that a browser sends with a person's cookie, but that no page of Tidegate made.

A browser adds the cookie by itself. So a call must come from Tidegate's own pages, as far as the
browser says where it comes from, and one that may change something must name the token that only
those pages can read.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from streams.api.refusal import Refusal
from streams.api.remedy import Remedy

HEADER = "X-CSRF-Token"
_CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = (None, "same-origin", "none")
"""What a browser says in `Sec-Fetch-Site` of a call that no other site made."""


def refuse_forgery(method: str, headers: Mapping[str, str], origin: str, csrf_token: str) -> None:
    """Return if a call with a cookie may be its person's own.

    Raises:
        Refusal: 403, another site made it, or it lacks the session's token.
    """
    is_safe = method in _CHANGES_NOTHING
    if headers.get("Origin", origin) != origin or not _is_own(headers, is_safe):
        raise Refusal(
            403,
            "foreign-origin",
            f"another site made this call: sessions are for pages of {origin}, tokens for programs",
        )
    if is_safe:
        return
    given = headers.get(HEADER, "").encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(given, csrf_token.encode()):
        own = Remedy("GET", "/v1/session")
        detail = f"send the csrf_token of {own} as the header {HEADER}"
        raise Refusal(403, "csrf-token-wrong", detail, remedy=own)


def _is_own(headers: Mapping[str, str], is_safe: bool) -> bool:
    """Return whether a page of Tidegate made a call, as far as the browser says so.

    A person may follow a link from elsewhere: the answer is shown, and no other site reads it.
    """
    how = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return headers.get("Sec-Fetch-Site") in OWN_SITES or (
        is_safe and how == ("navigate", "document")
    )
