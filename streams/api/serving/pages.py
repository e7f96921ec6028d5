"""Pages for people without a terminal: a link in a mail opens the one of an approval.

A page itself holds nothing, so it needs no token. Its script calls the API with the session of
whoever has signed in, or asks for a token and keeps it in memory. Opening a page changes nothing:
only its buttons send a POST, with the token or the session's CSRF token, which no other site knows.
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from streams.api.serving.call import OPEN, Calls

ROOTS = ("/approvals/", "/pages/")
"""Paths that begin so need no token and no read model."""

_FOLDER = Path(__file__).parent / "static"
_TYPES = {"approval.js": "text/javascript", "page.css": "text/css"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

calls = Calls()


@calls.get("/approvals/{approval_id}", of=OPEN)
async def approval_page(_: web.Request) -> web.Response:
    """The page on which a person reads what a job asks, and decides."""
    return _file("approval.html", "text/html")


@calls.get("/pages/{name}", of=OPEN)
async def page_file(request: web.Request) -> web.Response:
    """A script or style of the pages."""
    name = request.match_info["name"]
    if name not in _TYPES:
        raise web.HTTPNotFound
    return _file(name, _TYPES[name])


def _file(name: str, content_type: str) -> web.Response:
    body = (_FOLDER / name).read_bytes()
    return web.Response(body=body, content_type=content_type, charset="utf-8", headers=_HEADERS)
