"""The application of test_pipeline.py: it tells in a file what it really did."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from streams import App, Context

app = App("resuming")
app.tool("mail:send", key_lifetime=3600)


def happened(what: str) -> None:
    with Path(os.environ["RESUMING_LOG"]).open("a") as log:
        log.write(what + "\n")


async def write(text: str) -> str:
    happened(f"step {text}")
    return text.upper()


async def send(text: str, idempotency_key: str) -> dict[str, str]:
    happened(f"effect {text} {idempotency_key}")
    return {"sent": text}


@app.job("resume")
async def resume(ctx: Context) -> Any:
    first = not Path(os.environ["RESUMING_LOG"]).exists()
    happened(f"run {ctx.attempt} pid {os.getpid()}")
    text = await ctx.step("write", write, ctx.input["text"])
    sent = await ctx.effect("mail:send", send, key="only", text=text)
    await ctx.progress({"attempt": ctx.attempt})
    if first:
        await asyncio.Event().wait()
    return {"text": text, **sent}
