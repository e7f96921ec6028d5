"""The answer that contains a raw body."""

from __future__ import annotations

from aiohttp import web

_HEADERS = {
    "Content-Disposition": 'attachment; filename="payload"',
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""A stranger sent these bytes: no browser may treat them as a page."""


def attachment(body: bytes) -> web.Response:
    """Return the answer that contains a raw body."""
    return web.Response(body=body, content_type="application/octet-stream", headers=_HEADERS)
