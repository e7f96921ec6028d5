"""Sign-in pages: people go to their issuer; whoever has a token enters it, or follows a link."""

from __future__ import annotations

from http import HTTPStatus

import structlog
from aiohttp import hdrs, web

from streams.access.principal import Principal
from streams.access.tokens import parse
from streams.api.refusal import Refusal
from streams.api.serving import session_cookies
from streams.api.serving.access import ACCESS, address_of
from streams.api.serving.call import OPEN, Calls, state_as
from streams.api.serving.session import DESK, SESSION, origin_of, person
from streams.api.session.ending import end_session
from streams.api.session.forgery import OWN_SITES
from streams.api.session.links import opened
from streams.api.session.next_path import is_path_here
from streams.console.serving.asked_for import sent
from streams.console.serving.entering import SIGN_IN
from streams.console.serving.page import Page, answered, on_a_page

log = structlog.get_logger(__name__)

calls = Calls()

_HOME = "/console"
_EARLY = "The operator has not read its tokens to their end yet: try again in a few seconds."
_KEEP_COOKIES = ("https:", "http://127.0.0.1", "http://localhost")
"""Origins at which browsers keep the session: over TLS, or on their own machine."""


@calls.get(SIGN_IN, of=OPEN)
async def sign_in(request: web.Request) -> web.Response:
    """Where people sign in."""
    return await _page(request)


@calls.post(SIGN_IN, of=OPEN, verb="session.login")
@on_a_page
async def enter_token(request: web.Request) -> web.StreamResponse:
    """Open a session for whoever enters a token."""
    form = await sent(request)
    if (told := _unfit(request)) is not None:
        return await _page(request, told, HTTPStatus.FORBIDDEN)
    failures, address = request.app[DESK].failures, address_of(request)
    if seconds := failures.wait_seconds(address):
        told = f"Too many sign-ins failed from this address: try again in {seconds} s."
        return await _page(request, told, HTTPStatus.TOO_MANY_REQUESTS)
    if not request.app[ACCESS].is_known():
        return await _page(request, _EARLY, HTTPStatus.SERVICE_UNAVAILABLE)
    given = form.get("token", "").strip()
    found = request.app[ACCESS].authentication.of_token(given)
    if not isinstance(found, Principal):
        if parse(given) is None:  # nobody guesses one that was minted
            failures.failed(address)
        told = f"This token is {found.reason} here. `tidegate tokens create` makes one."
        return await _page(request, told, HTTPStatus.UNAUTHORIZED)
    return await _entered(request, found, form.get("next", _HOME))


@calls.get("/console/enter", of=OPEN, verb="session.login", allow_head=False)
@on_a_page
async def enter_by_link(request: web.Request) -> web.StreamResponse:
    """Open a session by a link that `tidegate console` made; each link opens one."""
    desk, site = request.app[DESK], request.headers.get("Sec-Fetch-Site")
    # A page would sign its visitor in as whoever made the link, also one here that leads on.
    if site not in (None, "none"):
        told = "Another page led here. If the link is your own, enter it in the address bar."
        return await _page(request, told, HTTPStatus.FORBIDDEN)
    if not request.app[ACCESS].is_known():  # the link is not used up by that
        return await _page(request, _EARLY, HTTPStatus.SERVICE_UNAVAILABLE)
    principal_id = opened(desk, request.query.get("link", ""))
    known = request.app[ACCESS].authentication
    found = None if principal_id is None else known.standing(principal_id)
    if found is None:
        told = "This link was used, or is too old: `tidegate console` makes a new one."
        return await _page(request, told, HTTPStatus.UNAUTHORIZED)
    return await _entered(request, found, request.query.get("next", _HOME))


@calls.post("/console/sign-out", of=OPEN, verb="session.logout")
@on_a_page
async def sign_out(request: web.Request) -> web.StreamResponse:
    """End the session of whoever looks."""
    form = await sent(request)
    try:
        found = await person(request, form.get("csrf", ""))
    except Refusal as refusal:
        if refusal.status != HTTPStatus.UNAUTHORIZED:
            raise
        found = None  # it is over already
    answer = web.Response(status=303, headers={hdrs.LOCATION: SIGN_IN})
    if found is not None:
        state = state_as(request, found)
        await end_session(state, request.app[DESK].people.ends, request[SESSION])
    session_cookies.forget_session(answer)
    return answer


async def _entered(request: web.Request, found: Principal, next_: str) -> web.Response:
    people, where = request.app[DESK].people, next_ if is_path_here(next_) else _HOME
    state = state_as(request, found)
    await state.audited(state.entry(found.id))
    log.info("somebody has signed in with a token", principal=found.id)
    answer = web.Response(status=303, headers={hdrs.LOCATION: where, "Cache-Control": "no-store"})
    session_cookies.keep_session(answer, people.sealed(people.enter(found)))
    return answer


def _unfit(request: web.Request) -> str | None:
    """Return why a sign-in form is not taken; None if this console sent it."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if origin not in (None, origin_of(request)) or site not in OWN_SITES:
        return (
            f"This page is not at {origin_of(request)}, where the operator expects it: open it "
            "there, or set TIDEGATE_PUBLIC_URL to where browsers find it."
        )
    return None


async def _page(request: web.Request, told: str = "", status: int = HTTPStatus.OK) -> web.Response:
    desk = request.app[DESK]
    next_ = request.query.get("next", _HOME)
    data = {
        "issuers": list(desk.people.desks),
        "next": next_ if is_path_here(next_) else _HOME,
        "why": told,
        "needs_tls": not origin_of(request).startswith(_KEEP_COOKIES),
    }
    return answered(request, Page("layout/sign_in.html", "Sign in", data), status)
