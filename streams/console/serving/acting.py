"""The one form handler: each button of the console is a call of the API, made by whoever looks.

After a call that is carried out the browser goes to a page that shows it (303), so that "back" and
"reload" send nothing again. The form's key makes two clicks one command. A call that is refused is
answered by a page that says why, with the form as it was sent.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from aiohttp import hdrs, web

from streams.api.refusal import Refusal
from streams.api.serving.call import OPEN, Calls
from streams.api.session.next_path import is_path_here
from streams.console.serving import answers, asked_for, telling
from streams.console.serving.asked_for import Form
from streams.console.serving.asking import API, Answer, Asking
from streams.console.serving.entering import as_page_tells, enter, own_csrf_token
from streams.console.serving.page import Page, answered, on_a_page, refusal_to_show
from streams.serde.job_states import CANCELLED

calls = Calls()

_CHANGING = frozenset({hdrs.METH_POST, hdrs.METH_PUT, hdrs.METH_DELETE})
"""What a button does; all else is for pages and links."""

_MEMBER = re.compile(r"\{(\w+)\}")
"""A member of an answer in a path. No more than that: a format of Python may ask for a gigabyte."""


@calls.post("/console/act", of=OPEN, verb="")
@on_a_page
async def act(request: web.Request) -> web.StreamResponse:
    """Make the call that a form names."""
    asking = Asking(request)
    fields = await asked_for.sent(request)
    form = asked_for.read(fields)
    try:
        await enter(request, fields.get("csrf", ""))
        answer = await _made(asking, form)
    except Exception as error:
        return _refused(request, form, refusal_to_show(request, error))
    if form.show and (page := await _shown(request, asking, form, answer)) is not None:
        return page
    return telling.redirect(request, _next(form, answer), _told(form, answer))


def _refused(request: web.Request, form: Form, refusal: Refusal) -> web.Response:
    """Return the page of a call that was not made; what another site has sent is not on it."""
    told, token = as_page_tells(refusal), own_csrf_token(request)
    shown = Form("", "", {}) if token is None else form
    data = {"refusal": told, "form": shown, "csrf": token or ""}
    return answered(request, Page("layout/refused.html", "Not done", data), told.status)


async def _shown(
    request: web.Request, asking: Asking, form: Form, answer: Answer
) -> web.Response | None:
    """Return the page of an answer; None if it cannot be made, because the call is done by now."""
    try:
        return answered(request, await answers.shown(request, asking, form, answer))
    except Exception as error:
        refusal_to_show(request, error)
        return None


async def _made(asking: Asking, form: Form) -> Answer:
    """Make the call of a form.

    Raises:
        Refusal: it is refused, or is none.
    """
    is_call = form.method in _CHANGING and form.target.startswith(API)
    if not is_call or await asking.declared(form.method, form.target) is None:
        raise Refusal(404, "route-unknown", "this form names no call of the API: reload its page")
    headers = {"Idempotency-Key": form.key, "If-Match": form.tag}
    given = {name: value for name, value in headers.items() if value}
    return await asking.call(form.method, form.target, form.body(), given)


def _next(form: Form, answer: Answer) -> str:
    """Return where the browser goes after a call; never to another site.

    A call that is not decided yet may name what is not there yet.
    """
    is_decided = answer.members.get("answered") is not False
    wanted = _filled(form.then, answer.members) if form.then and is_decided else form.back
    return wanted if is_path_here(wanted) else "/console"


def _filled(path: str, members: dict[str, Any]) -> str:
    """Return a path with members of an answer in it; an empty one if the answer lacks one."""
    if any(name not in members for name in _MEMBER.findall(path)):
        return ""
    return _MEMBER.sub(lambda found: quote(str(members[found[1]]), safe=""), path)


def _told(form: Form, answer: Answer) -> str:
    """Return what the next page says of the call."""
    what, members = form.said or f"{form.method} {form.target}", answer.members
    if members.get("answered") is False:
        return f"{what}: sent, and not decided yet. This page shows it as soon as it is."
    if members.get("bulk_id"):
        return f"{what}: begun. This page shows how far it is."
    if members.get("cancel_requested") and members.get("status") != CANCELLED:
        return f"{what}: asked for. It ends as soon as its handler stops."
    return f"{what}: done."
