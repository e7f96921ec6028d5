"""The recorder counts every call, honours keys for e-mails only, and can keep a call waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.demo.world.recorder import Recorder
from streams.demo.world.tools import Caller, Tools

ACME = Caller("acme", "job_1", "run_1", 1, 42)


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    served = Recorder()
    await served.start()
    yield served
    await served.stop()


async def send(recorder: Recorder, key: str | None, text: str = "hello marker-a") -> dict[str, Any]:
    async with Tools(ACME, recorder.url) as tools:
        return await tools.send_email(ticket="7", to="x", text=text, idempotency_key=key)


async def test_a_call_is_written_down_with_who_made_it_and_its_key(recorder: Recorder) -> None:
    await send(recorder, "k1")
    (call,) = recorder.calls
    assert (call.caller, call.external_id, call.action, call.key) == (
        ACME,
        "7",
        "email:send",
        "k1",
    )
    assert call.answered_at is not None
    assert call.began_at < call.answered_at


async def test_an_email_under_one_key_is_answered_alike_and_counted_twice(
    recorder: Recorder,
) -> None:
    assert await send(recorder, "k1") == await send(recorder, "k1")
    assert len(recorder.calls) == 2


async def test_emails_without_a_key_are_each_new(recorder: Recorder) -> None:
    assert await send(recorder, None) != await send(recorder, None)


async def test_a_refund_under_one_key_happens_twice(recorder: Recorder) -> None:
    async with Tools(ACME, recorder.url) as tools:
        first = await tools.refund(ticket="7", reason="late", idempotency_key="k1")
        second = await tools.refund(ticket="7", reason="late", idempotency_key="k1")
    assert first != second


async def test_a_held_call_is_told_and_gets_no_answer_until_released(recorder: Recorder) -> None:
    hold = recorder.hold("email:send", {"acme"})
    sending = asyncio.create_task(send(recorder, "k1"))
    call = await hold.request
    assert call.external_id == "7"
    assert not sending.done()
    assert recorder.calls[0].answered_at is None
    hold.release()
    await sending
    assert recorder.calls[0].answered_at is None


async def test_a_hold_takes_only_calls_of_its_action_and_tenants(recorder: Recorder) -> None:
    other_action = recorder.hold("payment:refund", {"acme"})
    other_tenant = recorder.hold("email:send", {"globex"})
    await send(recorder, "k1")
    assert not other_action.request.done()
    assert not other_tenant.request.done()


async def test_a_hold_that_was_given_up_takes_no_call(recorder: Recorder) -> None:
    recorder.hold("email:send", {"acme"}).release()
    await send(recorder, "k1")
    assert recorder.calls[0].answered_at is not None


async def test_calls_at_once_are_counted_for_each_tenant(recorder: Recorder) -> None:
    await asyncio.gather(*(send(recorder, f"k{n}") for n in range(3)))
    assert recorder.high_water == {"acme": 3}


async def test_a_start_keeps_the_handlers_own_time(recorder: Recorder) -> None:
    async with Tools(ACME, recorder.url) as tools:
        await tools.started(123.5)
    (start,) = recorder.starts
    assert (start.caller, start.at) == (ACME, 123.5)
