"""Who may pass, and how answers end, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson
import pytest
from aiohttp import ClientSession, web
from opentelemetry.trace import StatusCode
from support.callers import access_of
from support.recorded_spans import SAMPLED, UNSAMPLED, parent_id, recording, traceparent

from streams.api.refusal import Refusal
from streams.api.serving import request_body
from streams.api.serving.access import authenticated
from streams.api.serving.middlewares import newline_ended, problems, traced


async def _job(_: web.Request) -> web.Response:
    return web.json_response({"job_id": "job_a"})


async def _submit(request: web.Request) -> web.Response:
    refused = request.query.get("refused")
    if refused == "413":
        raise web.HTTPRequestEntityTooLarge(max_size=1, actual_size=2)
    if refused:
        raise Refusal(int(refused), "refused", "s3cret")
    return web.json_response({"traceparent": request_body.traceparent(request)}, status=202)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A guarded application with two paths."""
    guards = [
        newline_ended,
        problems,
        authenticated(access_of("right", open_schemas=True)),
        traced,
    ]
    app = web.Application(middlewares=guards)
    app.router.add_get("/v1/jobs", _job)
    app.router.add_post("/v1/tenants/{tenant_id}/jobs", _submit)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("authorization", "detail", "challenge"),
    [
        (None, "send a token", 'Bearer realm="tidegate"'),
        ("Basic right", "send a token", 'Bearer realm="tidegate"'),
        (
            "Bearer wrong",
            "is not known here",
            'Bearer realm="tidegate", error="invalid_token"',
        ),
    ],
)
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


async def submitted(url: str, query: str = "", token: str = "right") -> tuple[int, str]:
    """What a submission is answered, and which trace it was given."""
    headers = {"Authorization": f"Bearer {token}", "traceparent": SAMPLED}
    where = f"{url}/tenants/acme/jobs{query}"
    async with ClientSession(headers=headers) as client, client.post(where) as answer:
        return answer.status, orjson.loads(await answer.read()).get("traceparent", "")


async def test_a_submission_has_a_span_and_what_it_submits_belongs_to_it(url: str) -> None:
    with recording() as found:
        assert (await submitted(url)) == (202, traceparent(found.all[0]))
    (span,) = found.all
    assert span.name == "POST /v1/tenants/{tenant_id}/jobs"
    assert parent_id(span) == int("b" * 16, 16)
    assert (span.attributes or {})["http.response.status_code"] == 202


async def test_what_is_not_sampled_is_submitted_as_such_and_off_changes_nothing(url: str) -> None:
    with recording("traceidratio", 0.0) as found:
        assert (await submitted(url)) == (202, UNSAMPLED)
    assert found.all == []
    assert (await submitted(url)) == (202, SAMPLED)


@pytest.mark.parametrize(
    ("refused", "status", "code"),
    [
        ("409", 409, StatusCode.UNSET),
        ("413", 413, StatusCode.UNSET),
        ("503", 503, StatusCode.ERROR),
    ],
)
async def test_a_refused_call_shows_its_status_alone(
    url: str, refused: str, status: int, code: StatusCode
) -> None:
    with recording() as found:
        assert (await submitted(url, f"?refused={refused}"))[0] == status
    (span,) = found.all
    assert (span.attributes or {})["http.response.status_code"] == status
    assert (span.status.status_code, "s3cret" in found.text()) == (code, False)


async def test_strangers_and_readers_leave_no_span(url: str) -> None:
    headers = {"Authorization": "Bearer right", "traceparent": SAMPLED}
    with recording() as found:
        assert (await submitted(url, token="wrong"))[0] == 401
        async with ClientSession(headers=headers) as client, client.get(f"{url}/jobs") as answer:
            assert answer.status == 200
    assert found.all == []
