"""Every page of the console."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from aiohttp.web_routedef import AbstractRouteDef

from streams.api.refusal import Refusal
from streams.console.screens import modules
from streams.console.serving import acting, changes, files, sign_in
from streams.console.serving.answers import declare_answers
from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.templates import declare_calls

unknown = Pages("layout")


@unknown.get("/console/")
async def overview(_: Asking, request: web.Request) -> web.Response:
    """Lead to the overview, whose path has no slash at its end."""
    return web.Response(status=308, headers={"Location": "/console"})


@unknown.get("/console/{rest:.*}")
async def no_page(_: Asking, request: web.Request) -> Page:
    """Say that there is no such page; this comes after all others."""
    raise Refusal(404, "page-unknown", f"There is no page at {request.path}.")


def pages() -> Iterator[AbstractRouteDef]:
    """Yield paths and their handlers."""
    for served in (files, sign_in, acting, changes):
        yield from served.calls
    for screen in modules():
        yield from screen.pages.calls
    yield from unknown.calls


def add_console(app: web.Application) -> None:
    """Add the console to an application that has the calls of the API already."""
    app.add_routes(pages())
    declare_calls(app)
    declare_answers(app)
    app.on_startup.append(changes.begin)
    app.on_shutdown.append(changes.end)
