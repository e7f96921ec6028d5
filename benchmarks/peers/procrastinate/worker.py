"""A worker of Procrastinate: CONCURRENCY DELETE_JOBS."""

from __future__ import annotations

import sys

import uvloop

from peers.procrastinate.tasks import STALLED_SECONDS, app


async def work(concurrency: int, delete_jobs: str) -> None:
    """Run jobs until a signal says to stop."""
    async with app.open_async():
        await app.run_worker_async(
            concurrency=concurrency,
            delete_jobs=delete_jobs,
            update_heartbeat_interval=STALLED_SECONDS / 3,
            stalled_worker_timeout=STALLED_SECONDS,
        )


if __name__ == "__main__":
    uvloop.run(work(int(sys.argv[1]), sys.argv[2]))
