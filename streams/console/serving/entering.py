"""Who looks at a page: by the session of a sign-in, or of a token that was entered here."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import quote

from aiohttp import hdrs, web

from streams.api.refusal import Refusal
from streams.api.serving import session_cookies
from streams.api.serving.call import PRINCIPAL, STANDS
from streams.api.serving.problems import not_ready
from streams.api.serving.session import DESK, REFRESH, SESSION, origin_of, person, stands
from streams.api.serving.state import STATE

SIGN_IN = "/console/sign-in"
_ANEW = "you have signed in again since this page was loaded, and nothing was sent: send it again"


async def enter(request: web.Request, csrf_token: str | None = None) -> web.Response | None:
    """Have a request's calls made in the name of whoever looks; return where to go for that.

    It returns None for somebody who has signed in.

    Raises:
        Refusal: 403, another site sent the form; 401, the session was over when a form came; 503,
            the operator does not know all tokens and rows yet, so no session is over for that.
    """
    if not request.app[STATE].ready():
        raise not_ready()
    try:
        found = await person(request, csrf_token)
    except Refusal as refusal:
        if refusal.status != HTTPStatus.UNAUTHORIZED or request.method != hdrs.METH_GET:
            raise
        found = None
    if found is None:
        return _to_sign_in(request)
    request[PRINCIPAL] = found
    request[STANDS] = lambda: stands(request)
    return None


def own_csrf_token(request: web.Request) -> str | None:
    """Return the token of the session that a page of the console sends a form with.

    It is empty without a session, and None for a form that may come from elsewhere.
    """
    if SESSION in request:
        return request[SESSION].csrf_token
    if request.headers.get(hdrs.ORIGIN) != origin_of(request):
        return None
    session = request.app[DESK].people.opened(session_cookies.kept_session(request))
    return "" if session is None else session.csrf_token


def as_page_tells(refusal: Refusal) -> Refusal:
    """Return a refusal in the words of pages: one of an old form is told to programs."""
    is_old = refusal.name == "csrf-token-wrong"
    return Refusal(refusal.status, "signed-in-anew", _ANEW) if is_old else refusal


def _to_sign_in(request: web.Request) -> web.Response:
    if request.method != hdrs.METH_GET:
        raise Refusal(401, "session-over", f"the session is over: sign in again at {SIGN_IN}")
    where = f"{SIGN_IN}?next={quote(request.path_qs, safe='/')}"
    headers = {hdrs.LOCATION: where, "Cache-Control": "no-store"}
    answer = web.Response(status=303, headers=headers)
    if REFRESH in request.headers:  # its script would put the sign-in in place of what is shown
        answer = web.Response(status=401, headers={**headers, "HX-Redirect": where})
    if session_cookies.kept_session(request):
        session_cookies.forget_session(answer)
    return answer
