"""A worker of Absurd for two queues.

    python -m peers.absurd.worker CONCURRENCY BATCH CLAIM_SECONDS ASKING POLL_SECONDS CHILDREN_POLL

The children of fan-outs have a pace of their own: an idle queue costs as much as a busy one.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop
from absurd_sdk import AsyncAbsurd

from peers.absurd.tasks import CHILDREN, QUEUE, register


async def work(
    concurrency: int, batch: int, claim_seconds: int, asking: int, *poll_seconds: float
) -> None:
    """Run tasks until a signal ends the process; parents ask over `asking` connections."""
    address = os.environ["PEERS_POSTGRES"]
    app, children = (AsyncAbsurd(address, queue_name=name) for name in (QUEUE, CHILDREN))
    register(app, children, [AsyncAbsurd(address) for _ in range(asking)])
    async with asyncio.TaskGroup() as tasks:
        for each, seconds in zip((app, children), poll_seconds, strict=True):
            tasks.create_task(
                each.start_worker(
                    claim_timeout=claim_seconds,
                    concurrency=concurrency,
                    batch_size=batch,
                    poll_interval=seconds,
                )
            )


if __name__ == "__main__":
    uvloop.run(work(*map(int, sys.argv[1:5]), *map(float, sys.argv[5:])))
