"""Scripts and styles, under names that change with what is in them, so that caches may keep them.

What others made lies in `static/vendor/`, unchanged; `checksums` names versions and SHA-256.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from aiohttp import web

from streams.api.serving.call import OPEN, Calls

_FOLDER = Path(__file__).parent.parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOR_EVER = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}

calls = Calls()


@cache
def known() -> dict[str, Path]:
    """Return the files by their names in `static/`, such as `vendor/htmx.min.js`."""
    found = (path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _TYPES)
    return {path.relative_to(_FOLDER).as_posix(): path for path in found}


@cache
def url(name: str) -> str:
    """Return the path at which a file is served as it is now."""
    digest = hashlib.sha256(known()[name].read_bytes()).hexdigest()[:12]
    return f"/console/static/{digest}/{name}"


@calls.get("/console/static/{digest}/{name:.+}", of=OPEN)
async def static_file(request: web.Request) -> web.Response:
    """A script or a style."""
    path = known().get(request.match_info["name"])
    if path is None or request.path != url(request.match_info["name"]):
        raise web.HTTPNotFound
    type_ = _TYPES[path.suffix]
    return web.Response(
        body=path.read_bytes(), content_type=type_, charset="utf-8", headers=_FOR_EVER
    )
