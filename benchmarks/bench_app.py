"""The application that the benchmarks' workers run: handlers that do nothing, or one effect."""

from __future__ import annotations

import os
import time

from streams import App, Context

app = App("bench")
app.tool("email:send", key_lifetime=3600)

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


async def _send_email(*, to: str, idempotency_key: str | None) -> dict[str, str]:
    return {"sent": to}


def _note(ctx: Context) -> None:
    """Write the moment down, if a file for that is named."""
    if _log is not None:
        os.write(_log, f"{ctx.job_id} {time.time()}\n".encode())
