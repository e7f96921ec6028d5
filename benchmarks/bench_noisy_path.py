"""What a tenant far over its rate does to another's jobs, over the whole path.

    python benchmarks/bench_noisy_path.py [--seconds 30] [--json]

`tidegate dev` runs as users start it, with one worker. The quiet tenant sends 5 webhooks a second,
first alone, then while the noisy one tries to send 100 times as many over 100 connections, against
a rate of 25 a second. A latency counts from when the quiet tenant's webhook was due to the first
line of its job's handler. Each of its jobs must run once, else the exit code is 1.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import orjson
from aiohttp import ClientSession
from bench_noisy_neighbour import load
from harness import Result, arguments, report
from http_load import open_loop
from jobs_tidegate import ADMIN_TOKEN, Tidegate, tidegate
from webhook_requests import TENANTS, made

QUIET, NOISY = TENANTS[:2]
PER_SECOND = 5.0
SETTINGS = {"partitions": "4", "slots": "20"}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    with tidegate(folder, SETTINGS) as pipeline:
        asyncio.run(set_rate(pipeline.url))
        quiet(pipeline, 5)  # connections, caches and the JVM warm up
        alone = quiet(pipeline, chosen.seconds)
        beside, statuses = beside_the_noisy(pipeline, chosen.seconds)
    p99 = [statistics.quantiles(found, n=100)[98] for found in (alone, beside)]
    median = [statistics.median(found) for found in (alone, beside)]
    rows = [
        Result("quiet tenant", "p50 alone", round(median[0] * 1000, 1), "ms"),
        Result("quiet tenant", "p50 beside the noisy one", round(median[1] * 1000, 1), "ms"),
        Result("quiet tenant", "p99 alone", round(p99[0] * 1000, 1), "ms"),
        Result("quiet tenant", "p99 beside the noisy one", round(p99[1] * 1000, 1), "ms"),
        Result("quiet tenant", "ratio of the p99", round(p99[1] / p99[0], 2), ""),
        Result("noisy tenant", "answered", statuses.total() / chosen.seconds, "1/s"),
        Result("noisy tenant", "accepted", statuses[202] / chosen.seconds, "1/s"),
    ]
    report("noisy_path", rows, as_json=chosen.json)
    sys.exit(0 if len(alone) == len(beside) == int(PER_SECOND * chosen.seconds) else 1)


async def set_rate(url: str) -> None:
    """The noisy tenant's."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    rate = {"rate": {"count": int(5 * PER_SECOND * 60), "seconds": 60}}
    async with (
        ClientSession(url, headers=headers) as api,
        api.put(f"/v1/tenants/{NOISY}", json=rate) as answer,
    ):
        answer.raise_for_status()


def quiet(pipeline: Tidegate, seconds: float) -> list[float]:
    """Seconds from each webhook of the quiet tenant to its handler's first line."""
    requests = made(int(PER_SECOND * seconds), tenants=[QUIET])
    answers = open_loop(pipeline.port, requests, 5, PER_SECOND)
    due = {
        orjson.loads(body)["job_id"]: at - latency
        for (at, body), latency in zip(answers.bodies, answers.latencies, strict=True)
    }
    pipeline.await_starts(due.keys())
    starts = pipeline.starts()
    return [starts[job_id][0] - at for job_id, at in due.items() if len(starts[job_id]) == 1]


def beside_the_noisy(pipeline: Tidegate, seconds: float) -> tuple[list[float], Counter[int]]:
    """The quiet tenant's latencies, and how the noisy one was answered meanwhile."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    begin = context.Barrier(2)
    arguments_ = theirs, begin, pipeline.port, NOISY, 100, 100 * PER_SECOND, seconds
    process = context.Process(target=load, args=arguments_)
    process.start()
    begin.wait()
    found = quiet(pipeline, seconds)
    _, statuses, _ = ours.recv()
    process.join()
    return found, statuses


if __name__ == "__main__":
    main()
