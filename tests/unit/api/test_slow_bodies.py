"""Whoever may call no more when the body of a call has come is refused, however early it began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving
from support.conditions import PATIENCE_SECONDS
from support.entries import recorded

TOKEN = {"name": "spare", "role": "admin", "tenants": ["*"]}


class SlowBody:
    """A body whose first byte is sent at once, and all else when it is let go."""

    def __init__(self, body: Any) -> None:
        self._raw = orjson.dumps(body)
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._raw[:1]
        self.begun.set()
        await self.go.wait()
        yield self._raw[1:]


async def status_of(api: Api, token: str, path: str, body: SlowBody) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with api.client.post(path, headers=headers, data=body) as answer:
        return answer.status


async def is_used(api: Api, id_: str) -> bool:
    _, found = await api.ask(BOOTSTRAP_TOKEN, "GET", f"/v1/tokens/{id_}")
    return found["last_used_at"] is not None


@pytest.mark.parametrize("is_revoked", [False, True])
async def test_a_token_that_ends_while_a_body_comes_makes_no_token(
    tmp_path: Path, is_revoked: bool
) -> None:
    async with serving(tmp_path) as api, asyncio.timeout(PATIENCE_SECONDS):
        _, thief = await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/tokens", TOKEN)
        body = SlowBody(TOKEN)
        asked = asyncio.create_task(status_of(api, thief["token"], "/v1/tokens", body))
        await body.begun.wait()
        while not await is_used(api, thief["id"]):
            await asyncio.sleep(0)
        if is_revoked:
            await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{thief['id']}")
        body.go.set()
        assert await asked == (401 if is_revoked else 201)
        _, listed = await api.ask(BOOTSTRAP_TOKEN, "GET", "/v1/tokens")
        assert len(listed["tokens"]) == (1 if is_revoked else 2)


async def test_a_call_whose_token_ends_while_its_body_comes_has_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = recorded(monkeypatch, lambda: 1.0)
    async with serving(tmp_path) as api, asyncio.timeout(PATIENCE_SECONDS):
        _, thief = await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/tokens", TOKEN)
        body = SlowBody(TOKEN)
        asked = asyncio.create_task(status_of(api, thief["token"], "/v1/tokens", body))
        await body.begun.wait()
        while not await is_used(api, thief["id"]):
            await asyncio.sleep(0)
        await api.ask(BOOTSTRAP_TOKEN, "DELETE", f"/v1/tokens/{thief['id']}")
        body.go.set()
        assert await asked == 401
    refused = entries[-1]
    assert (refused.principal, refused.verb) == (f"token:{thief['id']}", "token.make")
    assert (refused.outcome, refused.reason) == ("refused", "unauthorized")
