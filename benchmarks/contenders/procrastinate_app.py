"""The Procrastinate application of bench_jobs, and its worker: CONCURRENCY POLLING_SECONDS.

Runs in an environment of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector

from contenders.jobs_handler import note, send_email

connector = PsycopgConnector(conninfo=os.environ["BENCH_SERVER"], min_size=4, max_size=32)
app = App(connector=connector)


async def _noop(context: JobContext, body: str) -> None:
    """Note the moment of its first line, and nothing else."""
    note(str(context.job.id))


async def _effect(context: JobContext, body: str) -> None:
    """Note the moment of its first line, then one bare call."""
    note(str(context.job.id))
    send_email(to="customer@example.com")


noop: Any = app.task(name="noop", pass_context=True)(_noop)
effect: Any = app.task(name="effect", pass_context=True)(_effect)


async def work(concurrency: int, polling: float) -> None:
    """Run jobs until a signal says to stop; their rows stay, so that their states can be read."""
    async with app.open_async():
        await app.run_worker_async(
            concurrency=concurrency, fetch_job_polling_interval=polling, delete_jobs="never"
        )


if __name__ == "__main__":
    asyncio.run(work(int(sys.argv[1]), float(sys.argv[2])))
