"""A job's payload: asked of its owner, whole, of the right event, or the reason why it is not."""

from __future__ import annotations

from typing import Any

import pytest
from support.worker_bench import Bench, bench

from streams import App, Context
from streams.serde.link.messages import Body
from streams.serde.records import BatchedEvent, Ended, EventInfo

EVENT = EventInfo(
    "evt_1", "zendesk", "ticket.created", None, None, 1, "text/plain", None, None, "k", {}
)
OTHER = EventInfo(
    "evt_2", "zendesk", "ticket.created", None, None, 1, "text/plain", None, None, "k2", {}
)


def app_of(function: Any, **options: Any) -> App:
    app = App("test")
    app.job("job", **options)(function)
    return app


async def read_payload(at: Bench, **lease: Any) -> Ended:
    return await at.ended(at.give(**lease))


async def echo(ctx: Context) -> str:
    return (await ctx.payload()).decode()


async def test_the_payload_is_the_body_of_the_event() -> None:
    async with bench(app_of(echo)) as at:
        ref = at.event_body("evt_1", b"hello world")
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
        (asked,) = at.owner.of(Body)
    assert ended.result == '"hello world"'
    assert (asked.index, asked.wait, asked.epoch) == (None, "", 1)


async def test_each_event_of_a_batch_has_its_body() -> None:
    async def both(ctx: Context) -> list[str]:
        return [(await ctx.payload(event)).decode() for event in ctx.events]

    async with bench(app_of(both)) as at:
        refs = [at.event_body("evt_1", b"one"), at.event_body("evt_2", b"two")]
        events = (BatchedEvent(EVENT, refs[0]), BatchedEvent(OTHER, refs[1]))
        ended = await read_payload(at, event=EVENT, payload_ref=refs[0], events=events)
        assert [asked.index for asked in at.owner.of(Body)] == [0, 1]
    assert ended.result == '["one","two"]'


async def document(ctx: Context) -> Any:
    return await ctx.json()


@pytest.mark.parametrize(
    "body", [b'{"a": 1}', b"payload=%7B%22a%22%3A+1%7D", b"x=1&payload=%7B%22a%22%3A1%7D"]
)
async def test_json_is_the_document_whether_a_form_wraps_it_or_not(body: bytes) -> None:
    async with bench(app_of(document)) as at:
        ended = await read_payload(at, event=EVENT, payload_ref=at.event_body("evt_1", body))
    assert ended.result == '{"a":1}'


@pytest.mark.parametrize(
    "body", [b"", b"hello", b"{", b"payload=%7B", b"payload=1&payload=2", b"\xff"]
)
async def test_a_body_without_json_fails_the_job_and_names_its_content_type(body: bytes) -> None:
    async with bench(app_of(document)) as at:
        ended = await read_payload(at, event=EVENT, payload_ref=at.event_body("evt_1", body))
    assert ended.status == "failed"
    assert "content type 'text/plain' holds no JSON" in (ended.error or "")


async def test_a_payload_that_is_not_there_fails_the_job() -> None:
    async with bench(app_of(echo)) as at:
        none = await read_payload(at)
        ref = at.event_body("evt_2", b"another's")
        gone = await read_payload(at, event=EVENT, payload_ref=ref)
    assert [none.status, gone.status] == ["failed", "failed"]
    assert "no such payload" in (none.error or "")
    assert "the body of evt_1 is gone" in (gone.error or "")


async def test_a_payload_that_cannot_be_had_now_is_tried_again() -> None:
    async with bench(app_of(echo)) as at:
        at.passing_failure = "data key key_x is not known here"
        ref = at.event_body("evt_1", b"hello")
        ended = await read_payload(at, event=EVENT, payload_ref=ref)
    assert ended.status == "retry"
    assert "data key key_x" in (ended.error or "")
