"""Pages: a handler asks the API and returns what a template shows.

pages = Pages()

@pages.get("/console/jobs/{job_id}")
async def job(asking: Asking, request: web.Request) -> Page:
    shown = await asking.get(f"/v1/jobs/{segment(request.match_info['job_id'])}")
    return Page("jobs/job.html", shown["job_id"], {"job": shown}, watch=("jobs",))
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import hdrs, web

from streams.api.refusal import Refusal
from streams.api.serving.call import OPEN, Calls
from streams.api.serving.problems import refusal_of
from streams.console.serving import telling
from streams.console.serving.asked_for import Form
from streams.console.serving.asking import Answer, Asking
from streams.console.serving.entering import enter
from streams.console.serving.headers import new_nonce, page_headers
from streams.console.serving.readers import READ, READERS
from streams.console.serving.templates import rendered

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A template with what it shows.

    The page is refreshed when one of the topics in `watch` has something new, unless it is a list
    (`is_list`): its rows stay where they are, and a line says that there are newer ones.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    watch: tuple[str, ...] = ()
    is_list: bool = False


Handler = Callable[[Asking, web.Request], Awaitable[Page | web.Response]]

Answered = Callable[[Asking, Form, Answer], Awaitable[Page]]
"""Makes the page that shows what the call of a form answered."""


class Pages:
    """The pages of the screen in a folder, as `Calls` are the calls of a resource."""

    def __init__(self, folder: str) -> None:
        self.calls = Calls()
        self.answers: dict[str, Answered] = {}
        self._folder = folder

    def get(self, path: str) -> Callable[[Handler], Handler]:
        """Declare a page; whoever has signed in may ask for it, and sees what the API gives them.

        The declaration is open because the page itself sends people to the sign-in.
        """

        def declare(handler: Handler) -> Handler:
            self.calls.get(path, of=OPEN)(_served(handler))
            return handler

        return declare

    def answer(self, show: str) -> Callable[[Answered], Answered]:
        """Declare the page of an answer, which a form names by `show`."""

        def declare(handler: Answered) -> Answered:
            self.answers[show] = handler
            return handler

        return declare

    def list(self, path: str, call: str, title: str, *watch: str) -> None:
        """Declare the page of a list of the API, by the folder's `list.html`.

        The page's query is that of the call.
        """
        template = f"{self._folder}/list.html"

        async def listed(asking: Asking, request: web.Request) -> Page:
            answer = await asking.get(call, request.query)
            return Page(template, title, {"answer": answer}, watch, is_list=True)

        self.get(path)(listed)


Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


def on_a_page(handler: Served) -> Served:
    """Have a handler show on a page why it did not do what was asked."""

    @functools.wraps(handler)
    async def shown(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Exception as error:
            return not_shown(request, refusal_to_show(request, error))

    return shown


def _served(handler: Handler) -> Served:
    @on_a_page
    @functools.wraps(handler)
    async def served(request: web.Request) -> web.StreamResponse:
        asking = Asking(request)
        if (sent_on := await enter(request)) is not None:
            return sent_on
        request[READ] = request.app[READERS].read()
        page = await handler(asking, request)
        return page if isinstance(page, web.Response) else answered(request, page)

    return served


def refusal_to_show(request: web.Request, error: Exception) -> Refusal:
    """Return what an error means to whoever looks; the log has the reason of one that is a bug."""
    known = refusal_of(error)
    if known is None:
        log.error("page failed", path=request.path, exc_info=error)
        known = Refusal(500, "internal-error", "The operator failed; its log has the reason.")
    return known


def not_shown(request: web.Request, refusal: Refusal) -> web.Response:
    """Return the page in place of one that cannot be shown."""
    may_be_asked_again = request.method in (hdrs.METH_GET, hdrs.METH_HEAD)
    data = {"refusal": refusal, "may_be_asked_again": may_be_asked_again}
    page = Page("layout/problem.html", "Not shown", data)
    return answered(request, page, refusal.status)


def answered(request: web.Request, page: Page, status: int = 200) -> web.Response:
    """Return a page as HTML."""
    nonce = new_nonce()
    readers = request.app[READERS]
    seen, late = readers.position(page.watch, request.get(READ)), readers.late_seconds
    shown = {**page.data, "page": page, "seen": seen, "late": late}
    text = rendered(request, page.template, nonce, shown)
    headers = page_headers(nonce)
    if status == 503:
        headers["Retry-After"] = "2"
    answer = web.Response(text=text, status=status, content_type="text/html", headers=headers)
    telling.forget(request, answer)
    return answer
