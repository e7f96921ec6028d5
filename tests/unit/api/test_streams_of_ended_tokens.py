"""An open stream ends with the token of its reader, however the token ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError
from support.conditions import PATIENCE_SECONDS
from support.live_desk import HEADERS, Log, Rows, serving, until
from support.operator_cluster import make_job

from streams.access.token_records import TokenGrant
from streams.access.tokens import mint
from streams.api.live.access_watch import AccessWatch
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

EVENTS = "/v1/jobs/job_a/events"
RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")


def granted(rows: Rows, **changed: Any) -> tuple[str, TokenGrant]:
    """A viewer's token that this operator knows."""
    token, now = mint(), wall_ms()
    grant = TokenGrant(
        token.id, "ci", "viewer", frozenset(), None, token.digest, now, "operator", now + 60_000
    )
    know(rows, replace(grant, **changed), now)
    return token.text, grant


def know(rows: Rows, grant: TokenGrant, at: int) -> None:
    record = TENANT.encode(grant.record(at))
    rows.access.authentication.book.apply(tenant_key(*grant.key), record)


@pytest.mark.parametrize("end", ["revoked", "expired", "deleted"])
@pytest.mark.parametrize("by_ticket", [False, True])
async def test_a_stream_ends_with_its_readers_token_and_others_go_on(
    tmp_path: Path, end: str, by_ticket: bool
) -> None:
    rows = Rows(tmp_path / "a.sqlite")
    async with serving(rows) as client, asyncio.timeout(PATIENCE_SECONDS):
        rows.fold(*Log().append(RUNNING))
        text, grant = granted(rows)
        path, own = EVENTS, {"Authorization": f"Bearer {text}"}
        if by_ticket:
            asked = await client.post("/v1/stream-tickets", headers=own, json={"jobs": ["job_a"]})
            path += f"?ticket={(await asked.json())['ticket']}"
        headers = {} if by_ticket else own
        async with (
            client.get(path, headers=headers) as answer,
            client.get(EVENTS, headers=HEADERS) as other,
        ):
            await until(answer, "status")
            await until(other, "status")
            rows.streams.watch.sweep()
            now = wall_ms() + 1
            match end:
                case "revoked":
                    know(rows, grant.revoked(now, "operator"), now)
                case "expired":
                    know(rows, replace(grant, expires_at=now - 1), now)
                case _:
                    rows.access.authentication.book.apply(tenant_key(*grant.key), None)
            rows.streams.watch.sweep()
            with pytest.raises(ClientError):
                await answer.content.read()
            rows.fold(*Log().append(replace(RUNNING, status="succeeded", result="1")))
            await until(other, "end")
        assert (await client.get(EVENTS, headers=own)).status == 401


async def test_a_ticket_opens_nothing_after_its_token_has_ended(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "a.sqlite")
    async with serving(rows) as client:
        rows.fold(*Log().append(RUNNING))
        text, grant = granted(rows)
        headers = {"Authorization": f"Bearer {text}"}
        asked = await client.post("/v1/stream-tickets", headers=headers, json={"jobs": ["job_a"]})
        ticket = (await asked.json())["ticket"]
        know(rows, grant.revoked(wall_ms() + 1, "operator"), wall_ms() + 1)
        assert (await client.get(f"{EVENTS}?ticket={ticket}")).status == 401


def test_the_watch_asks_once_for_each_reader_and_forgets_what_is_closed() -> None:
    watch, asked, ended = AccessWatch(), list[str](), list[str]()

    def stands(name: str, answer: bool) -> bool:
        asked.append(name)
        return answer

    with (
        watch.watching("a", lambda: stands("a", True), lambda: ended.append("a1")),
        watch.watching("a", lambda: stands("a", True), lambda: ended.append("a2")),
        watch.watching("b", lambda: stands("b", False), lambda: ended.append("b1")),
    ):
        watch.sweep()
        assert (asked, ended) == (["a", "b"], ["b1"])
        watch.sweep()
    watch.sweep()
    assert (asked, ended) == (["a", "b", "a"], ["b1"])
