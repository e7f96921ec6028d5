"""A run that has ended leaves nothing to Python's cycle collector, which workers call seldom."""

from __future__ import annotations

from support.garbage import left_behind

from streams import App, Context
from streams.testing import Bench

app = App("garbage")


async def send(idempotency_key: str) -> str:
    return "sent"


async def draft() -> str:
    return "text"


@app.job("invoice")
async def invoice(ctx: Context) -> str:
    ctx.heartbeat({"at": "the draft"})
    await ctx.step("draft", draft)
    sent: str = await ctx.effect("email:send", send, key="invoice")
    return sent


def test_a_run_leaves_no_cyclic_garbage() -> None:
    with Bench(app) as bench:
        bench.fake("email:send", returns="sent")
        bench.submit("invoice").run()  # whatever is made once
        with left_behind() as found:
            assert bench.submit("invoice").run().status == "succeeded"
    assert found == []
