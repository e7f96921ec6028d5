"""Sessions belong to no operator: any one takes them, and all refuse them once they are ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, DummyCookieJar
from support.kafka_under_test import KafkaUnderTest
from support.local_issuer import CLIENT, SECRET, LocalIssuer, visit
from support.local_issuer import running as issuer_running
from support.operator_cluster import (
    TOKEN,
    Cluster,
    RunningOperator,
    make_cluster,
    make_job,
    running,
)
from yarl import URL

from streams.topology.issuers import IssuerDeclaration

pytestmark = pytest.mark.broker

PUBLIC = "http://127.0.0.1:1"
"""Where browsers find both operators; the test's browser goes to one of them instead."""


class Browser:
    """A browser that keeps cookies, and goes to the operator that it is told."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.cookies: dict[str, str] = {}

    async def call(
        self, operator: RunningOperator, path: str, method: str = "GET", **given: Any
    ) -> tuple[int, str, Any]:
        """Status, where the answer leads, and its body."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": cookies, **given.pop("headers", {})}
        url = URL(operator.url + path, encoded=True)
        async with self._session.request(
            method, url, headers=headers, allow_redirects=False, **given
        ) as answer:
            for text in answer.headers.getall("Set-Cookie", ()):
                for name, kept in SimpleCookie(text).items():
                    self.cookies[name] = kept.value
            found = await answer.json() if answer.content_type.endswith("json") else None
            return answer.status, answer.headers.get("Location", ""), found

    async def lines(self, operator: RunningOperator, path: str) -> AsyncIterator[bytes]:
        """The lines of a stream, until it ends or breaks."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": cookies, "Accept": "text/event-stream"}
        async with self._session.get(operator.url + path, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            with suppress(ClientError):
                async for line in answer.content:
                    yield line

    async def sign_in(self, at: RunningOperator, back_at: RunningOperator) -> None:
        """Sign in: the browser leaves from one operator and comes back to another."""
        status, to_issuer, _ = await self.call(at, "/v1/session/login?next=/after")
        assert status == 303
        answer = URL(PUBLIC + "/v1/session/callback/corp").with_query(await visit(to_issuer))
        status, where, found = await self.call(back_at, str(answer.relative()))
        assert (status, where) == (303, "/after"), found


@pytest.fixture
def made(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def operators(
    made: Cluster, monkeypatch: pytest.MonkeyPatch, issuer: LocalIssuer
) -> Iterator[tuple[RunningOperator, RunningOperator]]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    corp = IssuerDeclaration(
        "corp", issuer.url, CLIENT, "env:OIDC_SECRET", roles={"ops": "operator"}
    )
    topology = replace(made.topology, issuers={"corp": corp})
    one, two = (
        made.settings.model_copy(update={"public_url": PUBLIC, "instance": name})
        for name in ("one", "two")
    )
    with running(one, topology) as first, running(two, topology) as second:
        yield first, second


@pytest.fixture
async def issuer() -> Any:
    async with issuer_running(LocalIssuer()) as issuer:
        yield issuer


@pytest.mark.parametrize("by", ["the person", "an administrator"])
async def test_a_session_is_every_operators_and_its_end_reaches_all(
    operators: tuple[RunningOperator, RunningOperator], by: str
) -> None:
    first, second = operators
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        browser = Browser(session)
        await browser.sign_in(first, second)
        for operator in operators:
            status, _, found = await browser.call(operator, "/v1/session")
            assert (status, found["principal"]["id"]) == (200, "person:corp:ada")
            assert (await browser.call(operator, "/v1/jobs"))[0] == 200
        stale = dict(browser.cookies)
        if by == "the person":
            path, body = "/v1/session/logout", dict[str, Any](everywhere=True)
            headers = {"X-CSRF-Token": found["csrf_token"]}
        else:
            path, headers = "/v1/session/end", {"Authorization": f"Bearer {TOKEN}"}
            body = {"principal": "person:corp:ada", "note": "left the company"}
        status, _, found = await browser.call(first, path, "POST", json=body, headers=headers)
        assert status == 200, found
        ended = time.monotonic()
        browser.cookies = stale
        while (await browser.call(second, "/v1/jobs"))[0] != 401:
            assert time.monotonic() - ended < 10, "the session is still taken"
        assert (await browser.call(first, "/v1/jobs"))[0] == 401
        await browser.sign_in(second, first)
        assert (await browser.call(second, "/v1/jobs"))[0] == 200


async def test_an_open_stream_ends_with_its_session_and_no_other(
    made: Cluster, operators: tuple[RunningOperator, RunningOperator]
) -> None:
    first, second = operators
    made.write(make_job("job_a", status="running", run_id="run_a"))
    await asyncio.to_thread(second.shows, "/v1/jobs/job_a", status="running")
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        ending, staying = Browser(session), Browser(session)
        for browser in (ending, staying):
            await browser.sign_in(first, first)
        other = staying.lines(second, "/v1/jobs/job_a/events")
        assert await anext(other)
        _, _, found = await ending.call(first, "/v1/session")
        headers = {"X-CSRF-Token": found["csrf_token"]}
        async with asyncio.timeout(60):
            async for _ in ending.lines(second, "/v1/jobs/job_a/events"):
                if headers:
                    path = "/v1/session/logout"
                    await ending.call(first, path, "POST", json={}, headers=headers)
                    headers = {}
        assert (await staying.call(second, "/v1/jobs"))[0] == 200
        made.write(make_job("job_a", status="succeeded"))
        async with asyncio.timeout(60):
            seen = [line async for line in other]
        assert any(b"succeeded" in line for line in seen)
