"""The application that Tidegate's worker runs."""

from __future__ import annotations

from peers import journal
from peers.journal import note
from streams import App, Context

app = App("peers")


@app.job("plain")
async def plain(ctx: Context) -> None:
    event_id = await _event_id(ctx)
    note("start", event_id)
    note("end", event_id)


@app.job("effect")
async def effect(ctx: Context) -> None:
    """The tool knows no keys: if the worker dies during the call, a person decides."""
    event_id = await _event_id(ctx)
    note("start", event_id)
    await ctx.effect("tool", _call, key="call", event_id=event_id)
    note("end", event_id)


@app.job("wait")
async def wait(ctx: Context) -> None:
    """The run ends at the wait, and another one begins at the first line."""
    assert ctx.event
    event_id = await _event_id(ctx)
    note("start", event_id)
    await ctx.wait_for_event({"event_type": "wait.answered", "subject": ctx.event.subject})
    note("woke", event_id)
    note("end", event_id)


@app.job("fan")
async def fan(ctx: Context) -> None:
    event_id = await _event_id(ctx)
    note("start", event_id)
    jobs = (await ctx.json())["data"]["jobs"]
    children = [ctx.child("child", f"{event_id}/{number}") for number in range(jobs)]
    await ctx.gather(children, key="all", limit=jobs)
    note("woke", event_id)
    note("end", event_id)


@app.job("child")
async def child(ctx: Context) -> None:
    note("start", ctx.input)
    note("end", ctx.input)


async def _event_id(ctx: Context) -> str:
    """The sender's own id of the event, from the body, which other peers' handlers are given."""
    event_id: str = (await ctx.json())["id"]
    return event_id


async def _call(event_id: str, idempotency_key: str) -> str:
    return await journal.effect(event_id)
