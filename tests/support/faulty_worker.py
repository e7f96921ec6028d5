"""A worker as a process that a test ends at its steps, and what its handlers do to the world.

`python -m support.faulty_worker`; the file that HAPPENED names gets a line for all that was done.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams import App, Context, PermanentError, Retry, TransientError
from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load
from streams.worker.job_types import JobFunction
from streams.worker.run import run
from support import worker_points

HAPPENED = "HAPPENED"
TIMEOUT = 5.0
"""Of each run, in seconds."""

app = App("faulty")
app.tool("mail", key_lifetime=3_600)


def happened(*what: str) -> None:
    with Path(os.environ[HAPPENED]).open("a") as log:
        log.write(" ".join(what) + "\n")


@contextmanager
def alone(ctx: Context) -> Iterator[None]:
    """Tell of a second run of the job at the same time, in whichever process."""
    path = Path(os.environ[HAPPENED]).parent / "running"
    path.mkdir(exist_ok=True)
    with (path / ctx.job_id).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            happened("two_runs", ctx.job_id)
        yield


def job(type_: str) -> Callable[[JobFunction], JobFunction]:
    """Declare a handler of which no job may have two runs at a time."""

    def declare(function: JobFunction) -> JobFunction:
        async def watched(ctx: Context) -> Any:
            with alone(ctx):
                return await function(ctx)

        return app.job(type_, retry=Retry(max_attempts=3, backoff=(0.2,)), timeout=TIMEOUT)(watched)

    return declare


async def write(tenant: str) -> str:
    return f"dear {tenant}"


async def call(vendor: str, job_id: str, idempotency_key: str) -> str:
    happened(vendor, job_id, idempotency_key)
    worker_points.reach(f"called {vendor}")
    return f"{vendor} of {job_id}"


async def mail(ctx: Context) -> Any:
    return await ctx.effect("mail", call, key="reply", vendor="mail", job_id=ctx.job_id)


@job("note")
async def note(ctx: Context) -> Any:
    await ctx.step("write", write, ctx.tenant_id)
    return await mail(ctx)


@job("pay")
async def pay(ctx: Context) -> Any:
    """Its tool honours no key: what is unknown waits for a person."""
    return await ctx.effect("pay", call, key="order", vendor="pay", job_id=ctx.job_id)


@job("slow")
async def slow(ctx: Context) -> Any:
    await ctx.step("write", write, ctx.tenant_id)
    await asyncio.sleep(0.7)
    return await mail(ctx)


@job("parked")
async def parked(ctx: Context) -> Any:
    return await mail(ctx)


@job("patient")
async def patient(ctx: Context) -> Any:
    """Two answers, in the order in which they came, whoever died between the waits."""
    await mail(ctx)
    answer = {"source": "shop", "event_type": "answer", "subject": ctx.job_id}
    return [(await ctx.wait_for_event(answer)).dedup_key for _ in range(2)]


@job("flaky")
async def flaky(ctx: Context) -> Any:
    sent = await mail(ctx)
    if ctx.attempt == 1:
        raise TransientError("the ticket system is busy")
    return sent


@job("hopeless")
async def hopeless(ctx: Context) -> None:
    raise PermanentError("no such customer")


@job("endless")
async def endless(ctx: Context) -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    worker_points.install()
    settings = load_settings(slots=4)
    configure_logging(settings, stage="worker", instance=settings.instance)
    run(app, settings, load(settings.topology))
