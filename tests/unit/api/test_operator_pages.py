"""The page that a link in a mail opens: it holds nothing, and opening it decides nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.callers import access_of

from streams.api.serving import pages
from streams.api.serving.access import authenticated
from streams.api.serving.middlewares import caught_up, problems


@pytest.fixture
async def api() -> AsyncIterator[TestClient[Any, Any]]:
    """A guarded operator whose read model is not there."""
    app = web.Application(
        middlewares=[
            problems,
            authenticated(access_of("right", open_schemas=False)),
            caught_up,
        ]
    )
    app.add_routes(pages.calls)
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_the_page_and_its_files_need_no_token_and_run_nothing_from_elsewhere(
    api: TestClient[Any, Any],
) -> None:
    page = await api.get("/approvals/apr_1")
    text = await page.text()
    files = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert (page.status, page.content_type, len(files)) == (200, "text/html", 2)
    assert "apr_1" not in text
    for answer in [page, *[await api.get(file) for file in files]]:
        assert answer.status == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_the_page_itself_takes_no_decision(api: TestClient[Any, Any], method: str) -> None:
    assert (await api.request(method, "/approvals/apr_1")).status == 405


@pytest.mark.parametrize("path", ["/pages/none", "/pages/..%2F__init__.py", "/approvals/a/b"])
async def test_nothing_else_is_served(api: TestClient[Any, Any], path: str) -> None:
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("path", ["/v1/approvals/apr_1", "/approvals"])
async def test_calls_need_their_token_as_before(api: TestClient[Any, Any], path: str) -> None:
    assert (await api.get(path)).status == 401
