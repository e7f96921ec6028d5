"""A worker of Absurd for both queues: CONCURRENCY BATCH CLAIM_SECONDS POLL_SECONDS.

Children of fan-outs are polled for at the client's own pace of 0.25 s, since nobody waits for one.
"""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop
from absurd_sdk import AsyncAbsurd

from peers.absurd.tasks import CHILDREN, QUEUE, register

CHILDREN_POLL_SECONDS = 0.25


async def work(concurrency: int, batch: int, claim_seconds: int, poll_seconds: float) -> None:
    """Run tasks until a signal ends the process."""
    address = os.environ["PEERS_POSTGRES"]
    app, children = (AsyncAbsurd(address, queue_name=name) for name in (QUEUE, CHILDREN))
    register(app, children)
    async with asyncio.TaskGroup() as tasks:
        for each, seconds in ((app, poll_seconds), (children, CHILDREN_POLL_SECONDS)):
            tasks.create_task(
                each.start_worker(
                    claim_timeout=claim_seconds,
                    concurrency=concurrency,
                    batch_size=batch,
                    poll_interval=seconds,
                )
            )


if __name__ == "__main__":
    uvloop.run(work(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
