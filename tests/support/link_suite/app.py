"""The suite's application, for the worker in Python; docs/link.md says what each job does."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import aiohttp

from streams import App, Context, PermanentError, RetryAfter, TransientError

app = App("suite")
app.tool("mail", key_lifetime=86_400)


async def call(n: int, idempotency_key: str, **_: Any) -> Any:
    headers = {"Idempotency-Key": idempotency_key}
    url = os.environ["TOOL_URL"]
    async with aiohttp.request("POST", url, json={"n": n}, headers=headers) as answer:
        if answer.status != 200:
            raise TransientError(f"the tool answers {answer.status}")
        return await answer.json()


async def first(to: str, idempotency_key: str) -> Any:
    return await call(1, idempotency_key)


async def second(to: str, idempotency_key: str) -> Any:
    return await call(2, idempotency_key)


async def letter(text: str, idempotency_key: str) -> Any:
    return await call(0, idempotency_key)


@app.job("echo")
async def echo(ctx: Context) -> Any:
    return ctx.input


@app.job("measure")
async def measure(ctx: Context) -> Any:
    return {"length": len(ctx.input["text"])}


@app.job("step_then_effect")
async def step_then_effect(ctx: Context) -> Any:
    async def written(name: str) -> Any:
        return {"text": f"Dear {name}"}

    draft = await ctx.step("draft", written, ctx.input["name"])
    return await ctx.effect("mail", letter, key="letter", **draft)


@app.job("two_effects")
async def two_effects(ctx: Context) -> Any:
    to = ctx.input["to"]
    one = await ctx.effect("mail", first, key="first", to=to)
    return [one, await ctx.effect("mail", second, key="second", to=to)]


@app.job("wait_event")
async def wait_event(ctx: Context) -> Any:
    match = {"event_type": "ticket.*", "subject": ctx.input["ticket"]}
    return (await ctx.wait_for_event(match, timeout=60)).attributes


@app.job("wait_time")
async def wait_time(ctx: Context) -> Any:
    await ctx.sleep(ctx.input["seconds"])
    return "awake"


@app.job("children")
async def children(ctx: Context) -> Any:
    one = await ctx.enqueue("echo", {"n": 1}, key="first")
    two = await ctx.enqueue("echo", {"n": 2}, key="second")
    return await ctx.all(one, two)


@app.job("approval")
async def approval(ctx: Context) -> Any:
    return (await ctx.approval("refund", prompt="May I?")).approved


@app.job("slow")
async def slow(ctx: Context) -> Any:
    await asyncio.sleep(ctx.input["seconds"])
    return "done"


@app.job("fails")
async def fails(ctx: Context) -> Any:
    raise PermanentError("it never works")


@app.job("retries")
async def retries(ctx: Context) -> Any:
    raise RetryAfter(7, "not now")
