"""The application that the benchmarks' workers run: handlers that do nothing, or one effect."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time

from streams import App, Context

app = App("bench")
app.tool("email:send", key_lifetime=3600)

_released = os.environ.get("BENCH_RELEASED", "")
_starts = os.environ.get("BENCH_STARTS")
_log = os.open(_starts, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if _starts else None


@app.job("plain", timeout=30)
async def plain(ctx: Context) -> None:
    """Note the moment of its first line, and nothing else."""
    _note(ctx)


@app.job("one_effect", timeout=30)
async def one_effect(ctx: Context) -> None:
    """Note the moment of its first line, then one effect that costs nothing."""
    _note(ctx)
    await ctx.effect("email:send", _send_email, key="reply", to="customer@example.com")


@app.job("told_effect", timeout=30)
async def told_effect(ctx: Context) -> None:
    """Note the moment after one effect that costs nothing."""
    await ctx.effect("email:send", _send_email, key="reply", to="customer@example.com")
    _note(ctx)


@app.job("fan_out", timeout=600)
async def fan_out(ctx: Context) -> int:
    """Gather as many plain jobs as the input says."""
    jobs = [ctx.child("plain", None) for _ in range(ctx.input["jobs"])]
    return len(await ctx.gather(jobs, key="all", limit=ctx.input["limit"]))


@app.job("held", timeout=600)
async def held(ctx: Context) -> None:
    """Hold a lease until a file is there."""
    _note(ctx)
    await _until_released()


@app.job("ticking", timeout=600)
async def ticking(ctx: Context) -> None:
    """Make an effect five times a second until a file is there, and note each."""
    for number in itertools.count():
        await ctx.effect("email:send", _tick, key=f"{number}", job=ctx.job_id, number=number)
        if await _until_released(0.2):
            return


async def _until_released(seconds: float = math.inf) -> bool:
    """Whether the file is there, after so long at most."""
    until = time.monotonic() + seconds
    while not (found := os.path.exists(_released)) and time.monotonic() < until:
        await asyncio.sleep(0.2)
    return found


async def _tick(*, job: str, number: int, idempotency_key: str | None) -> None:
    if _log is not None:
        os.write(_log, f"{job} {time.time()} {number}\n".encode())


async def _send_email(*, to: str, idempotency_key: str | None) -> dict[str, str]:
    return {"sent": to}


def _note(ctx: Context) -> None:
    """Write the moment down, if a file for that is named."""
    if _log is not None:
        os.write(_log, f"{ctx.job_id} {time.time()}\n".encode())
