"""An application with what a person on duty meets: jobs that die, ask, wait and say tokens."""

from __future__ import annotations

import asyncio
from typing import Any

from streams import App, Context, PermanentError

app = App("night")
app.tool("payment:refund")


@app.job("refund", timeout=60, scopes={"payment:refund"})
async def refund(ctx: Context) -> dict[str, Any]:
    """Pay back, then die unless the order has a currency."""
    order = ctx.input["order_id"]
    done = await ctx.effect("payment:refund", _pay_back, key=f"order-{order}", order_id=order)
    if "currency" not in ctx.input:
        raise PermanentError(f"order {order} has no currency: ask the shop <b>now</b>")
    return dict(done)


@app.job("ask", timeout=60)
async def ask(ctx: Context) -> dict[str, Any]:
    """Go on once a person has answered."""
    answer = await ctx.approval("go", prompt="Refund 1,200 to a new customer?", effects=[])
    return {"approved": str(answer)}


@app.job("slow", timeout=600)
async def slow(ctx: Context) -> None:
    """Say a token now and then, until it is cancelled."""
    for number in range(1_000):
        ctx.stream(f"token-{number} ")
        await asyncio.sleep(0.2)


@app.job("draft_reply", timeout=60)
async def draft_reply(ctx: Context) -> dict[str, Any]:
    """Answer a ticket in one step."""
    return {"draft": await ctx.step("draft", _draft)}


async def _pay_back(order_id: int, idempotency_key: str) -> dict[str, Any]:
    return {"refunded": order_id}


async def _draft() -> str:
    return "Dear customer"
