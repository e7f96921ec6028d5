"""Many workers of `bench_app` in one process: `python link_workers.py FIRST COUNT SLOTS`.

Each has a name, slots, leases and connections of its own, as if it were alone. The environment says
where the owners are.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import uvloop
from bench_app import app

from streams.settings import load_settings
from streams.telemetry import configure_logging
from streams.topology.load import load
from streams.worker.run import dialer_of
from streams.worker.worker import Worker, WorkerSpec


async def serve(first: int, count: int, slots: int) -> None:
    """Work until SIGTERM."""
    settings, stop = load_settings(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    configure_logging(settings, stage="worker", instance=f"bench-{first}")
    topology = load(settings.topology)
    places = [WorkerSpec(f"bench-{first + n}", slots=slots) for n in range(count)]
    workers = [Worker(app, dialer_of(settings), topology, place) for place in places]
    await asyncio.gather(*(worker.serve(stop, 0) for worker in workers))


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
