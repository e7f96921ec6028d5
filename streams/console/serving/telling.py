"""What a page says once of what was done before it: a sealed cookie carries it past a redirect."""

from __future__ import annotations

from aiohttp import hdrs, web

from streams.access.sealed_cookies import SealedCookies
from streams.api.serving import session_cookies
from streams.api.serving.session import REFRESH
from streams.api.serving.state import STATE

_COOKIE = "__Host-tidegate-told"
_KEPT_SECONDS = 60
_LONGEST = 1_000


def redirect(request: web.Request, where: str, told: str) -> web.Response:
    """Send a browser to a page that says something."""
    answer = web.Response(status=303, headers={hdrs.LOCATION: where, "Cache-Control": "no-store"})
    text = _sealing(request).seal(told[:_LONGEST].encode())
    session_cookies.keep(answer, _COOKIE, text, _KEPT_SECONDS)
    return answer


def told(request: web.Request) -> str:
    """Return what this page is to say; empty if nothing."""
    plain = _sealing(request).open(session_cookies.kept(request, _COOKIE))
    return "" if plain is None else plain.decode()


def forget(request: web.Request, answer: web.StreamResponse) -> None:
    """Have the browser forget what was said, unless only a script has seen it."""
    if REFRESH not in request.headers and session_cookies.kept(request, _COOKIE):
        session_cookies.keep(answer, _COOKIE, "", 0)


def _sealing(request: web.Request) -> SealedCookies:
    return SealedCookies(request.app[STATE].vault, "console told")
