"""How soft the edge of `max_queued` is: what is accepted beyond a cap, through real processes.

    python benchmarks/bench_backlog.py [--jobs 1000] [--json]

Kafka and one process of each stage run as in production. Nothing handles the jobs, so each accepted
event waits. For each rate a tenant of its own gets events at that rate, whatever is answered (an
open loop), until 5 s after its cap must be reached. `beyond` is what was accepted over the cap, and
`as a time` how long the rate takes for it. Every accepted event must have its job, and every other
must be answered 429, else the exit code is 1.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiohttp import ClientSession, TCPConnector
from bench_end_to_end import START_SECONDS, post
from harness import Result, arguments, report
from outside import APPLICATION_PATH
from sources import create_sources
from webhook_requests import TENANTS

from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.settings import Settings

RATES = (20, 100, 400)
WARM_UP = 200
"""Events of another tenant before the clock runs."""
BEYOND_SECONDS = 5.0
SHOWN_SECONDS = 30.0
OVERLAY = """\
routes: [{{match: {{source: bench}}, job: nobody_handles}}]
max_queued: [{{scope: tenant, jobs: {jobs}}}]
"""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="the cap of each tenant")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        results, wrong = asyncio.run(measure(Path(folder), chosen.jobs))
    report("backlog", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


async def measure(folder: Path, cap: int) -> tuple[list[Result], int]:
    overlay = folder / "topology.yaml"
    overlay.write_text(OVERLAY.format(jobs=cap))
    settings = Settings(data_dir=folder / "data", port=0, topology=overlay, log_level="warning")
    env = {"PYTHONPATH": APPLICATION_PATH, "BENCH_STARTS": str(folder / "starts")}
    pipeline = Pipeline(settings, Layout(), app="bench_app:app", env=env)
    async with asyncio.timeout(START_SECONDS):
        await pipeline.__aenter__()
    try:
        await create_sources(pipeline.url, pipeline.credentials.admin_token)
        await flood(pipeline, TENANTS[-1], 100, min(WARM_UP, cap // 2))
        results, wrong = [], 0
        for tenant, rate in zip(TENANTS, RATES, strict=False):
            answers = await flood(pipeline, tenant, rate, cap + int(rate * BEYOND_SECONDS))
            waiting = await depth(pipeline, tenant, answers[202])
            wrong += abs(waiting - answers[202]) + answers.total() - answers[202] - answers[429]
            results += figures(rate, answers[202] - cap)
    finally:
        await pipeline.__aexit__(None, None, None)
    return [*results, Result("all rates", "lost, or answered otherwise", wrong, "events")], wrong


def figures(rate: int, beyond: int) -> list[Result]:
    name = f"{rate} events/s"
    return [
        Result(name, "beyond the cap", beyond, "jobs"),
        Result(name, "as a time", round(beyond / rate * 1000), "ms"),
    ]


async def flood(pipeline: Pipeline, tenant: str, rate: int, events: int) -> Counter[int]:
    """Send each event at its time; how often each status was answered."""
    ingress = next(member.url for member in pipeline.members if member.stage == "ingress")
    async with ClientSession(ingress, connector=TCPConnector(limit=0)) as session:
        start, sending = time.perf_counter() + 0.1, []
        for number in range(events):
            await asyncio.sleep(max(0, start + number / rate - time.perf_counter()))
            body = f'{{"type":"plain.made","id":"evt-{rate}-{number}"}}'.encode()
            sending.append(asyncio.create_task(post(session, tenant, body)))
        return Counter([status for status, _ in await asyncio.gather(*sending)])


async def depth(pipeline: Pipeline, tenant: str, expected: int) -> int:
    """How many jobs of a tenant wait, once that is what is expected or no more come."""
    token = {"Authorization": f"Bearer {pipeline.credentials.admin_token}"}
    until = time.monotonic() + SHOWN_SECONDS
    async with ClientSession(pipeline.url, headers=token) as session:
        while True:
            async with session.get("/v1/backlog") as answer:
                lines = (await answer.json())["backlog"]
            found: int = sum(each["jobs"] for each in lines if each["value"] == tenant)
            if found == expected or time.monotonic() > until:
                return found
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    main()
