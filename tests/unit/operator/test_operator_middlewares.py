"""Who may pass, and how answers end, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import ClientSession, web

from streams.operator.http.middlewares import authenticated, newline_ended, problems


async def _job(_: web.Request) -> web.Response:
    return web.json_response({"job_id": "job_a"})


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A guarded application with one path."""
    app = web.Application(
        middlewares=[newline_ended, problems, authenticated("right", open_schemas=True)]
    )
    app.router.add_get("/v1/jobs", _job)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("authorization", "detail", "challenge"),
    [
        (None, "send the admin token", 'Bearer realm="tidegate"'),
        ("Basic right", "send the admin token", 'Bearer realm="tidegate"'),
        (
            "Bearer wrong", "is not this process's",
            'Bearer realm="tidegate", error="invalid_token"',
        ),
    ],
)  # fmt: skip
async def test_no_token_and_a_wrong_one_are_told_apart(
    url: str, authorization: str | None, detail: str, challenge: str
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with ClientSession() as client, client.get(f"{url}/jobs", headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == challenge
        assert detail in orjson.loads(await answer.read())["detail"]


@pytest.mark.parametrize(("path", "status"), [("/jobs", 200), ("/none", 404)])
async def test_an_answer_ends_its_line(url: str, path: str, status: int) -> None:
    headers = {"Authorization": "Bearer right"}
    async with ClientSession(headers=headers) as client, client.get(f"{url}{path}") as answer:
        body = await answer.read()
    assert (answer.status, body.count(b"\n"), body[-1:]) == (status, 1, b"\n")
