"""Calls of sign-in: begin it, come back from the issuer, show the session, end it."""

from __future__ import annotations

from typing import Any

import structlog
from aiohttp import hdrs, web
from prometheus_client import Counter

from streams.access.oidc import authorization
from streams.access.oidc.authorization import WITHIN_MS, SignIn
from streams.access.permissions import ADMIN, READ, in_order
from streams.access.principal import Principal
from streams.access.session import ABSOLUTE_MS, Session
from streams.api.fields import Body
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.remedy import Remedy
from streams.api.serving import session_cookies
from streams.api.serving.access import address_of, caller_if_known
from streams.api.serving.call import (
    EVERY_TENANT,
    OPEN,
    PRINCIPAL,
    SHARED,
    Calls,
    state_as,
    state_of,
)
from streams.api.serving.request_body import read_body
from streams.api.serving.session import DESK, SESSION, issuer_unavailable, person
from streams.api.session.desk import CALLBACK, SignInDesk
from streams.api.session.ending import end_session, end_sessions
from streams.api.session.links import LIFETIME_MS, new_link
from streams.api.session.next_path import DEFAULT, is_path_here
from streams.api.session.session_request import EndRequest, LogoutRequest
from streams.errors import IssuerUnavailable, SignInRefused
from streams.http.moments import rfc3339
from streams.http.problem import problem

log = structlog.get_logger(__name__)

SIGN_INS = Counter(
    "tidegate_sign_ins_total",
    "People who came back from an issuer: done, issuer-unavailable, or why they were refused",
    ["issuer", "outcome"],
)
LOGIN = "/v1/session/login"
_ASKS_NOBODY = frozenset({"state-unknown", "state-used"})
"""Refusals that are not counted against an address: any page may have a visitor's browser send an
answer to no sign-in, as the source of an image, and would keep all people behind its address out.
"""
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

calls = Calls()


@calls.get(LOGIN, of=OPEN, allow_head=False)
async def login(request: web.Request) -> web.Response:
    """Send a browser to an issuer; `next` is the path that it comes back to."""
    desk = request.app[DESK]
    if (too_often := _too_often(request, desk)) is not None:
        return too_often
    next_ = request.query.get("next", DEFAULT)
    if not is_path_here(next_):
        raise invalid("next", "must be a path of this server, such as /approvals/appr_1")
    try:
        sign_in, url = await desk.people.begin(_wanted(request, desk), next_)
    except IssuerUnavailable as error:
        raise issuer_unavailable(error) from None
    answer = _redirect(url)
    session_cookies.keep_sign_in(request, answer, sign_in, desk.begun.seal(sign_in.encoded()))
    return answer


@calls.get(CALLBACK + "/{issuer}", of=OPEN, verb="session.login", allow_head=False)
async def callback(request: web.Request) -> web.Response:
    """Take a browser back from an issuer, and give it a session."""
    desk = request.app[DESK]
    if (too_often := _too_often(request, desk)) is not None:
        return too_often
    try:
        sign_in = _begun(request, desk)
        session = await desk.people.finish(request.query, sign_in)
        text = desk.people.sealed(session)
    except SignInRefused as error:
        raise await _refused(request, desk, error) from None
    except IssuerUnavailable as error:
        SIGN_INS.labels(_name_in(request, desk), "issuer-unavailable").inc()
        raise issuer_unavailable(error) from None
    known = _known(request, session.person)
    await known.audited(known.entry(session.person))
    SIGN_INS.labels(session.issuer, "done").inc()
    log.info("a person has signed in", person=session.person)
    answer = _redirect(sign_in.next)
    session_cookies.forget_sign_in(answer, sign_in.state)
    session_cookies.keep_session(answer, text)
    return answer


@calls.get("/v1/session", of=OPEN)
async def show(request: web.Request) -> web.Response:
    """Show who calls, and where people can sign in; it needs no token."""
    desk, found = request.app[DESK], await caller_if_known(request)
    return web.json_response(
        {
            **_session_json(request.get(SESSION)),
            "principal": _principal_json(found),
            "issuers": [
                {"name": name, "login": f"{LOGIN}?issuer={name}"} for name in desk.people.desks
            ],
        },
        headers=_PRIVATE,
    )


@calls.post("/v1/session/logout", of=OPEN, verb="session.logout", body=LogoutRequest)
async def logout(request: web.Request) -> web.Response:
    """End the session of whoever calls, or all sessions of that person."""
    found = await person(request)
    if found is None:
        raise Refusal(409, "no-session", "this call has no session: there is nothing to end")
    state, session = state_as(request, found), request[SESSION]
    ends = request.app[DESK].people.ends
    wanted = await read_body(request, LogoutRequest)
    if wanted.everywhere:
        await end_sessions(state, ends, session.person, session.person, "signed out everywhere")
    else:
        await end_session(state, ends, session)
    answer = web.json_response({"principal": session.person, "everywhere": wanted.everywhere})
    session_cookies.forget_session(answer)
    return answer


@calls.post("/v1/session/links", of=SHARED, needs=READ, verb="session.link", body=Body)
async def link(request: web.Request) -> web.Response:
    """Make a link that opens the console once, within two minutes, with the caller's rights."""
    await read_body(request, Body)
    if SESSION in request:  # a link of a session would begin the next one, without an end
        raise Refusal(409, "no-token", "a session makes no link: open /console, or send a token")
    path = new_link(request.app[DESK], request[PRINCIPAL])
    return web.json_response({"path": path, "seconds": LIFETIME_MS // 1000}, headers=_PRIVATE)


@calls.post("/v1/session/end", of=EVERY_TENANT, needs=ADMIN, verb="session.end", body=EndRequest)
async def end(request: web.Request) -> web.Response:
    """End all sessions that a person has now; the person may sign in again."""
    state, wanted = state_of(request), await read_body(request, EndRequest)
    ends, by = request.app[DESK].people.ends, request[PRINCIPAL].id
    await end_sessions(state, ends, wanted.principal, by, wanted.note)
    return web.json_response({"principal": wanted.principal})


def _wanted(request: web.Request, desk: SignInDesk) -> str:
    """Return the issuer that a call names, or the only one.

    Raises:
        Refusal: 404, there is none of that name; 422, there are several, and it names none.
    """
    names = list(desk.people.desks)
    name = request.query.get("issuer") or (names[0] if len(names) == 1 else None)
    if name is None and names:
        raise invalid("issuer", f"must be one of {', '.join(names)}")
    if name is None or name not in desk.people.desks:
        all_ = Remedy("GET", DEFAULT)
        raise unknown("issuer", name or "", f"{all_} lists them", all_)
    return name


def _begun(request: web.Request, desk: SignInDesk) -> SignIn:
    """Return the sign-in that a browser comes back from; it does so once.

    Raises:
        SignInRefused: this browser began none with this state, or has come back already.
    """
    query = request.query
    if any(len(query.getall(name)) > 1 for name in query):
        raise SignInRefused("state-unknown", "the answer names something twice: begin again")
    state = query.get("state", "")
    plain = desk.begun.open(session_cookies.kept_sign_in(request, state))
    if plain is None:
        raise SignInRefused("state-unknown", "this browser began no such sign-in: begin again")
    sign_in = authorization.decoded(plain)
    if sign_in.issuer != request.match_info["issuer"] or sign_in.issuer not in desk.people.desks:
        raise SignInRefused("issuer-mixed-up", "another issuer gave this answer: begin again")
    if not desk.used.take(sign_in.state, sign_in.started_at + WITHIN_MS, desk.now()):
        raise SignInRefused("state-used", "this answer was used already: begin again")
    return sign_in


def _too_often(request: web.Request, desk: SignInDesk) -> web.Response | None:
    """Return the 429 for an address from which many sign-ins failed; None for any other."""
    seconds = desk.failures.wait_seconds(address_of(request))
    if not seconds:
        return None
    much = f"too many sign-ins failed from this address: try again in {seconds} s"
    headers: dict[str, str] = {hdrs.RETRY_AFTER: str(seconds)}
    return problem(429, "sign-in-throttled", much, headers=headers)


def _known(request: web.Request, who: str) -> AppState:
    """Return the operator's parts for a person whom an issuer vouches for, and nothing of rows."""
    return state_as(request, Principal(who, who, "person", frozenset(), frozenset()))


async def _refused(request: web.Request, desk: SignInDesk, error: SignInRefused) -> Refusal:
    """Return the refusal of a sign-in, which the audit has if the issuer vouches for the person."""
    if error.reason not in _ASKS_NOBODY:
        desk.failures.failed(address_of(request))
    issuer = _name_in(request, desk)
    SIGN_INS.labels(issuer, error.reason).inc()
    log.warning("a sign-in is refused", issuer=issuer, reason=error.reason)
    if error.person is not None:
        known = _known(request, error.person)
        await known.refused(known.call, known.verb, request.path, error.reason, str(error))
    return Refusal(403, "sign-in-refused", str(error), reason=error.reason)


def _name_in(request: web.Request, desk: SignInDesk) -> str:
    """Return the issuer in a path, if there is one of that name; anybody may write any name."""
    name = request.match_info["issuer"]
    return name if name in desk.people.desks else "unknown"


def _redirect(where: str) -> web.Response:
    return web.Response(status=303, headers={**_PRIVATE, hdrs.LOCATION: where})


def _session_json(session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"signed_in": False, "csrf_token": None, "idle_ends_at": None, "ends_at": None}
    return {
        "signed_in": True,
        "csrf_token": session.csrf_token,
        "idle_ends_at": rfc3339(session.ends_at),
        "ends_at": rfc3339(session.started_at + ABSOLUTE_MS),
    }


def _principal_json(principal: Principal | None) -> dict[str, Any] | None:
    if principal is None:
        return None
    return {
        "id": principal.id,
        "name": principal.name,
        "role": principal.role,
        "permissions": in_order(principal.permissions),
        "tenants": ["*"] if principal.tenants is None else sorted(principal.tenants),
    }
