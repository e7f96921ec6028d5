"""The headers of pages: what a browser may load, run and send because of one."""

from __future__ import annotations

import secrets

CSP = "Content-Security-Policy"

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def new_nonce() -> str:
    """Return what marks the scripts and the elements of one page as the server's own."""
    return secrets.token_urlsafe(18)


def page_headers(nonce: str) -> dict[str, str]:
    """Return the headers of a page: no inline script or style, no eval, nothing from elsewhere.

    A script needs the page's nonce: there are files of strangers at this origin, too.

    htmx alone may write HTML into the document (Trusted Types), from elements with the nonce.
    """
    policy = (
        "default-src 'none'",
        f"script-src 'nonce-{nonce}'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types htmx",
    )
    return {CSP: "; ".join(policy), **_ALWAYS}
