"""A job's payload: read whole, waited for, or the reason why it cannot be read."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from support.worker_bench import Bench, bench, data_key, payload_ref

from streams import App, Context
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import Ended, EventInfo, PayloadRef, TenantRecord
from streams.serde.sizes import CHUNK_BYTES
from streams.vault.data_key import DataKey, new_key_record

EVENT = EventInfo(
    "evt_1", "zendesk", "ticket.created", None, None, 1, "text/plain", None, None, "k", {}
)


def app_of(function: Any, **options: Any) -> App:
    app = App("test")
    app.job("job", **options)(function)
    return app


async def read_payload(at: Bench, **lease: Any) -> Ended:
    return await at.ended(at.give(**lease))


async def echo(ctx: Context) -> str:
    return (await ctx.payload()).decode()


async def test_the_payload_is_the_body_of_every_chunk() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello ", b"world")
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
    assert ended.result == '"hello world"'


async def document(ctx: Context) -> Any:
    return await ctx.json()


@pytest.mark.parametrize(
    "body", [b'{"a": 1}', b"payload=%7B%22a%22%3A+1%7D", b"x=1&payload=%7B%22a%22%3A1%7D"]
)
async def test_json_is_the_document_whether_a_form_wraps_it_or_not(body: bytes) -> None:
    async with bench(app_of(document)) as at:
        ended = await read_payload(
            at, event=EVENT, payload_ref=payload_ref(at, "acme", "evt_1", body)
        )
    assert ended.result == '{"a":1}'


@pytest.mark.parametrize(
    "body", [b"", b"hello", b"{", b"payload=%7B", b"payload=1&payload=2", b"\xff"]
)
async def test_a_body_without_json_fails_the_job_and_names_its_content_type(body: bytes) -> None:
    async with bench(app_of(document)) as at:
        ended = await read_payload(
            at, event=EVENT, payload_ref=payload_ref(at, "acme", "evt_1", body)
        )
    assert ended.status == "failed"
    assert "content type 'text/plain' holds no JSON" in (ended.error or "")


async def test_a_large_payload_is_opened_while_threads_of_handlers_hang() -> None:
    """They would keep the bodies of every tenant closed for as long as the process lives."""
    let_go, body = threading.Event(), b"x" * (CHUNK_BYTES + 1)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(let_go.wait, 20))

    async def length(ctx: Context) -> int:
        return len(await ctx.payload())

    try:
        async with bench(app_of(length)) as at:
            ref = payload_ref(at, "acme", "evt_1", body[:CHUNK_BYTES], body[CHUNK_BYTES:])
            ended = await read_payload(at, event=EVENT, payload_ref=ref)
    finally:
        let_go.set()
        await hanging
    assert ended.result == str(len(body))


async def test_another_tenants_payload_does_not_open() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "rival", "evt_1", b"secret")
        own = data_key(at.book, at.vault, "acme")
        ended = await read_payload(at, event=EVENT, payload_ref=replace(ref, key_id=own.key_id))
    assert ended.status == "failed"
    assert "cannot open" in (ended.error or "")


async def test_a_payload_that_is_not_there_fails_the_job() -> None:
    async with bench(app_of(echo)) as at:
        key = data_key(at.book, at.vault, "acme")
        none = await read_payload(at)
        gone = await read_payload(at, event=EVENT, payload_ref=PayloadRef(2, (55,), 1, key.key_id))
    assert [none.status, gone.status] == ["failed", "failed"]
    assert "no such payload" in (none.error or "")
    assert "payloads:2:55 is gone" in (gone.error or "")


async def test_a_payload_with_a_chunk_cut_off_fails_the_job() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello ", b"world")
        ended = await read_payload(at, event=EVENT, payload_ref=replace(ref, offsets=(100,)))
    assert ended.status == "failed"
    assert "6 bytes, not 11" in (ended.error or "")


async def test_a_payload_whose_key_comes_later_is_waited_for() -> None:
    async with bench(app_of(echo)) as at:
        record = new_key_record(at.vault, "acme")
        at.transport.payloads[2, 1] = DataKey(at.vault, record).seal("evt_1", 0, b"late")
        lease = at.give(event=EVENT, payload_ref=PayloadRef(2, (1,), 4, record.id))
        async with asyncio.timeout(10):
            while not at.book._waiting:  # until the handler asks for the key
                await asyncio.sleep(0)
        at.book.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
        assert (await at.ended(lease)).result == '"late"'


async def test_a_payload_whose_key_does_not_come_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streams.vault.opening.KEY_SECONDS", 0.05)
    async with bench(app_of(echo)) as at:
        ended = await read_payload(at, event=EVENT, payload_ref=PayloadRef(2, (1,), 4, "key_x"))
        assert not at.book._waiting
    assert ended.status == "retry"
    assert "data key key_x" in (ended.error or "")


async def test_an_erased_tenants_payload_fails_the_job_and_says_why() -> None:
    async with bench(app_of(echo)) as at:
        ref = payload_ref(at, "acme", "evt_1", b"hello")
        erasure = TENANT.encode(TenantRecord("acme", "erasure", "", True, "{}"))
        at.book.apply(tenant_key("acme", "erasure", ""), erasure)
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
    assert ended.status == "failed"
    assert "tenant acme was erased" in (ended.error or "")
