"""The customer's application in the demo: `tidegate worker --app streams.demo.world.app:app`.

Nothing in it guards against running twice, because the demo shows that it need not.
"""

from __future__ import annotations

import os
import time
from typing import Any

from streams import App, Context, Retry, TransientError
from streams.demo.world.tools import Caller, Tools

app = App("demo")
app.tool("email:send", key_lifetime=86_400)


@app.job(
    "draft_reply",
    retry=Retry(max_attempts=5, backoff=(1,)),
    timeout=60,
    scopes={"email:send", "payment:refund"},
)
async def draft_reply(ctx: Context) -> dict[str, str]:
    """Answer a ticket by e-mail, and refund if its tags say so."""
    began = time.time()
    async with Tools(_caller(ctx)) as tools:
        await tools.started(began)
        ticket = (await ctx.json())["detail"]
        id_, tags = ticket["id"], ticket["tags"]
        if "poison" in tags:
            raise ValueError("this ticket cannot be understood")
        draft = await ctx.step("draft", tools.draft, id_, ticket["description"])
        await ctx.effect(
            "email:send",
            tools.send_email,
            key="reply",
            ticket=id_,
            to=ticket["requester_email"],
            text=draft,
        )
        if "refund" in tags:
            await ctx.effect("payment:refund", tools.refund, key="order", ticket=id_, reason=draft)
        if "flaky" in tags and ctx.attempt == 1:
            raise TransientError("the ticket system did not take the answer")
    return {"draft": draft}


@app.job("follow_up", retry=Retry(max_attempts=5, backoff=(1,)), timeout=60, scopes={"email:send"})
async def follow_up(ctx: Context) -> dict[str, Any]:
    """Ask the customer, some time later, whether all is well."""
    began = time.time()
    async with Tools(_caller(ctx)) as tools:
        await tools.started(began)
        sent: dict[str, Any] = await ctx.effect(
            "email:send",
            tools.send_email,
            key="follow-up",
            ticket=ctx.input["ticket"],
            to=ctx.input["to"],
            text=ctx.input["text"],
        )
    return sent


def _caller(ctx: Context) -> Caller:
    return Caller(ctx.tenant_id, ctx.job_id, ctx.run_id, ctx.attempt, os.getpid())
