"""Finds out which person calls, from the session in the cookie."""

from __future__ import annotations

import structlog
from aiohttp import hdrs, web

from streams.access.principal import Principal
from streams.access.session import Session
from streams.api.refusal import Refusal
from streams.api.remedy import Remedy
from streams.api.serving import session_cookies
from streams.api.session.desk import SignInDesk
from streams.api.session.forgery import HEADER, refuse_forgery
from streams.errors import IssuerUnavailable, SignInRefused

log = structlog.get_logger(__name__)

DESK: web.AppKey[SignInDesk] = web.AppKey("sign_in_desk", SignInDesk)
SESSION: web.RequestKey[Session] = web.RequestKey("session", Session)
_STREAM = "text/event-stream"
"""What a browser asks for when it opens a stream again by itself: nobody is there then, maybe."""
REFRESH = "HX-Request"
"""A header of a page that is fetched anew by its script, because something has changed."""

_RENEWED: web.RequestKey[str] = web.RequestKey("renewed_session", str)


async def person(request: web.Request, csrf_token: str | None = None) -> Principal | None:
    """Return the person whose session a call has; None for a call without one.

    A call with an `Authorization` header is a program's, whatever cookies it has. A form has its
    `csrf_token` as a field, all other calls have it as a header.

    Raises:
        Refusal: 401, the session is over; 403, another site made the call; 503, the issuer does not
            confirm the person.
    """
    desk, text = request.app.get(DESK), session_cookies.kept_session(request)
    if desk is None or not text or hdrs.AUTHORIZATION in request.headers:
        return None
    session = desk.people.opened(text)
    if session is None:
        raise _over("the session is over")
    headers = request.headers if csrf_token is None else {**request.headers, HEADER: csrf_token}
    refuse_forgery(request.method, headers, origin_of(request), session.csrf_token)
    return await _current(request, desk, session)


def origin_of(request: web.Request) -> str:
    """Return the operator's origin as browsers see it: as it is set, or as this one asks it."""
    return request.app[DESK].origin or f"{request.scheme}://{request.host}"


async def _current(request: web.Request, desk: SignInDesk, session: Session) -> Principal:
    """Return whose session it is, after the issuer was asked again if that is due."""
    headers = request.headers
    is_use = headers.get(hdrs.ACCEPT) != _STREAM and REFRESH not in headers
    try:
        current, principal = await desk.people.current(session, is_use=is_use)
        if current is not session:
            request[_RENEWED] = desk.people.sealed(current)
    except SignInRefused as error:
        raise _over(str(error)) from None
    except IssuerUnavailable as error:
        raise issuer_unavailable(error) from None
    request[SESSION] = current
    return principal


def stands(request: web.Request) -> bool:
    """Return whether the session of a call still holds, while the call is being answered."""
    return request.app[DESK].people.stands(request[SESSION])


async def renew_cookie(request: web.Request, answer: web.StreamResponse) -> None:
    """Put a session that has changed into the answer; a signal of aiohttp, before each answer.

    No cache keeps what was answered to a session, because a cookie does not tell it to.
    """
    text = request.get(_RENEWED)
    if text is not None and not session_cookies.sets_session(answer):
        session_cookies.keep_session(answer, text)
    if SESSION in request:
        answer.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")


def issuer_unavailable(error: IssuerUnavailable) -> Refusal:
    """Return the refusal of a call for which an issuer had to answer; the log alone says why."""
    log.warning("an issuer does not answer as it must", reason=str(error))
    told = "the issuer that you sign in with does not answer as it must: try again in a moment"
    return Refusal(503, "issuer-unavailable", f"{told}; the operator's log has the reason")


def _over(why: str) -> Refusal:
    login = Remedy("GET", "/v1/session/login")
    return Refusal(401, "session-over", f"{why}: sign in again by {login}", remedy=login)
