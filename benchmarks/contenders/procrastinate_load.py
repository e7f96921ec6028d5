"""Sends jobs to Procrastinate and waits until all have ended: KIND COUNT RATE PATIENCE SENDERS.

Prints one JSON object as `jobs_contenders.Told` reads it. With COUNT 0 it only creates the tables.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from contenders.jobs_handler import BODY
from contenders.procrastinate_app import app, effect, noop

_POLL_SECONDS = 0.05
_OPEN = "SELECT count(*) AS found FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
_RIGHT = """
    SELECT count(*) AS found FROM procrastinate_jobs AS job WHERE status = 'succeeded' AND 1 = (
        SELECT count(*) FROM procrastinate_events WHERE job_id = job.id AND type = 'started')
"""
_LAST = "SELECT extract(epoch FROM max(at))::float AS found FROM procrastinate_events"


async def main() -> None:
    kind, count, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    patience, senders = float(sys.argv[4]), int(sys.argv[5])
    task = {"noop": noop, "effect": effect}[kind]
    async with app.open_async():
        if not count:
            await app.schema_manager.apply_schema_async()
            return
        await app.connector.execute_query_async("TRUNCATE procrastinate_jobs CASCADE")
        began, before = time.time(), time.process_time()
        answered = await send(task, count, rate, senders)
        spent = time.process_time() - before
        await all_ended(time.monotonic() + patience)
        told = {"began": began, "ended": await ask(_LAST), "answered": answered}
        unsettled = count - await ask(_RIGHT)
        print(json.dumps({**told, "unsettled": unsettled, "spent": spent}))


async def send(task: Any, count: int, rate: float, senders: int) -> dict[str, float]:
    """The moment at which each job was taken; each sender has one on its way at a time."""
    answered: dict[str, float] = {}
    numbers, began = iter(range(count)), time.time()

    async def sender() -> None:
        for number in numbers:
            if rate:
                await asyncio.sleep(max(0.0, began + number / rate - time.time()))
            job_id = await task.defer_async(body=BODY)
            answered[str(job_id)] = time.time()

    await asyncio.gather(*(sender() for _ in range(senders)))
    return answered


async def all_ended(deadline: float) -> None:
    while await ask(_OPEN) and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)


async def ask(query: str) -> Any:
    """The one figure that a query finds."""
    return (await app.connector.execute_query_one_async(query))["found"]


if __name__ == "__main__":
    asyncio.run(main())
