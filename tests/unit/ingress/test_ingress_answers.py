"""Paths, methods, metrics and the shape of every answer."""

from __future__ import annotations

import orjson
import pytest
from aiohttp import web
from support.ingress_app import Edge
from support.webhooks import signed, ticket, zendesk_signed

from ingress.receive import problems


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/hooks/acme", 404),
        ("POST", "/v1/hooks/acme/", 404),
        ("POST", "/v1/hooks/acme/zendesk/more", 404),
        ("POST", "/v1/hooks//zendesk", 404),
        ("GET", "/v1/hooks/acme/zendesk", 405),
        ("PUT", "/v1/hooks/nobody/nothing", 405),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("HEAD", "/metrics", 200),
    ],
)
async def test_other_paths_and_methods(edge: Edge, method: str, path: str, status: int) -> None:
    async with edge.client.request(method, edge.url + path) as response:
        assert response.status == status
        if status >= 400:
            answer = orjson.loads(await response.read())
            assert answer["status"] == status
            assert answer["type"].startswith("urn:tidegate:problem:")
        assert ("Allow" in response.headers) == (status == 405)


async def test_metrics_count_outcomes_and_name_no_tenant(edge: Edge) -> None:
    await edge.deliver("acme", ticket("counted"))
    await edge.deliver("acme", ticket("counted"))
    body = b'{"id":"old key"}'
    await edge.post("/v1/hooks/acme/rotated", body, signed(body, b"old"))
    await edge.post("/v1/hooks/acme/shop", body, {})
    async with edge.client.get(f"{edge.url}/metrics") as response:
        text = await response.text()
    for sample in (
        'tidegate_ingress_requests_total{outcome="accepted"}',
        'tidegate_ingress_requests_total{outcome="duplicate"}',
        'tidegate_ingress_requests_total{outcome="unauthorized"}',
        'tidegate_ingress_old_key_matches_total{scheme="hmac-sha256"}',
        'tidegate_ingress_signature_failures_total{reason="missing_header",scheme="hmac-sha256"}',
        "tidegate_ingress_ack_seconds_count",
        "tidegate_ingress_body_bytes_sum",
    ):
        assert f"\n{sample} " in text
    assert "acme" not in text
    assert "bolt" not in text


async def test_every_answer_ends_its_line(edge: Edge) -> None:
    body = ticket("e1")
    for path, headers in (
        ("/v1/hooks/acme/zendesk", zendesk_signed(body)),
        ("/v1/hooks/acme/zendesk", {}),
        ("/", {}),
    ):
        async with edge.client.post(f"{edge.url}{path}", data=body, headers=headers) as response:
            assert (await response.read()).endswith(b"}\n")


def test_every_problem_says_what_its_sender_does_next() -> None:
    for each in vars(problems).values():
        if isinstance(each, problems.Problem):
            detail = detail_of(each.response())
            assert len(detail.split()) > 3, each.name
            assert detail_of(each.response("x is wrong")) == f"x is wrong: {detail}"


def detail_of(response: web.Response) -> str:
    assert isinstance(response.body, bytes)
    return str(orjson.loads(response.body)["detail"])
