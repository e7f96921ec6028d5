"""Sessions belong to no operator: any one takes them, and all refuse them once they are ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, DummyCookieJar
from support.kafka_under_test import KafkaUnderTest
from support.local_issuer import CLIENT, SECRET, LocalIssuer, visit
from support.local_issuer import running as issuer_running
from support.operator_cluster import TOKEN, RunningOperator, make_cluster, running
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

    async def sign_in(self, at: RunningOperator, back_at: RunningOperator) -> None:
        """Sign in: the browser leaves from one operator and comes back to another."""
        status, to_issuer, _ = await self.call(at, "/v1/session/login?next=/after")
        assert status == 303
        answer = URL(PUBLIC + "/v1/session/callback/corp").with_query(await visit(to_issuer))
        status, where, found = await self.call(back_at, str(answer.relative()))
        assert (status, where) == (303, "/after"), found


@pytest.fixture
def operators(
    kafka: KafkaUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: LocalIssuer
) -> Iterator[tuple[RunningOperator, RunningOperator]]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    made = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
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
