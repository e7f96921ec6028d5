"""What jobs of jobs cost: a job that gathers many, beside as many jobs from the API in one run.

    python benchmarks/bench_workflows.py [--jobs 1000] [--large 10000] [--json]

`tidegate dev` runs as users start it, with one worker. `from the API`: no-op jobs by `POST
/v1/tenants/{t}/jobs`, 32 at a time. `gathered`: one job with as many no-op jobs below it, from its
submission to its result. Processor time is that of all processes but the benchmark's own. `large`
is the same with many more, to see that neither the records of the parent nor that of the workflow
grow. Each job must succeed in its first attempt, and the parent must get each result, else the exit
code is 1.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path

from aiohttp import ClientSession
from harness import Result, arguments, report
from jobs_tidegate import ADMIN_TOKEN, CONNECTIONS, Tidegate, tidegate
from outside import Reader, scan
from webhook_requests import TENANTS

from streams.serde.codec import JOB
from streams.serde.records import Job
from streams.topology.load import load

_SETTINGS = {"partitions": "4", "slots": "64"}
_LIMIT = 50
_PATIENCE_SECONDS = 300.0


class Ends:
    """Follows the topic `jobs`: the newest record of each job."""

    def __init__(self, pipeline: Tidegate) -> None:
        self.newest: dict[str, Job] = {}
        self._reader = Reader(pipeline.bootstrap, load(), "jobs")

    def await_success(self, count: int) -> None:
        """Return once so many jobs have succeeded."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while Counter(job.status for job in self.newest.values())["succeeded"] < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {_PATIENCE_SECONDS:g} s: {count:,} jobs succeed")
            for message in self._reader.read():
                if message.value() is not None:
                    job = JOB.decode(message.value())
                    self.newest[job.job_id] = job

    def close(self) -> None:
        self._reader.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=10_000)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        tidegate(Path(folder), _SETTINGS) as pipeline,
    ):
        results, wrong = asyncio.run(_measured(pipeline, chosen))
    results.append(Result("all", "not succeeded at once", wrong, "jobs"))
    report("workflows", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


async def _measured(pipeline: Tidegate, chosen: Namespace) -> tuple[list[Result], int]:
    ends = Ends(pipeline)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with ClientSession(pipeline.url, headers=headers) as api:
        await _submit_all(api, ends, 50)  # warms all processes up
        results: list[Result] = []
        for round_ in ("1", "2"):
            spent, seconds = await _timed(pipeline, _submit_all(api, ends, chosen.jobs))
            results += _costs(f"from the API, {round_}", spent, seconds, chosen.jobs)
            spent, seconds = await _timed(pipeline, _gather(api, ends, chosen.jobs))
            results += _costs(f"gathered, {round_}", spent, seconds, chosen.jobs)
        spent, seconds = await _timed(pipeline, _gather(api, ends, chosen.large))
        results += _costs(f"gathered, {chosen.large:,}", spent, seconds, chosen.large)
    ends.close()
    jobs = ends.newest.values()
    wrong = sum(job.status != "succeeded" or job.attempts != 1 for job in jobs)
    return [*results, *_sizes(pipeline)], wrong


async def _timed(pipeline: Tidegate, work: Awaitable[None]) -> tuple[float, float]:
    """Processor and wall seconds of some work."""
    before, started = sum(pipeline.spent().values()), time.perf_counter()
    await work
    return sum(pipeline.spent().values()) - before, time.perf_counter() - started


async def _submit_all(api: ClientSession, ends: Ends, count: int) -> None:
    goal = len(ends.newest) + count
    left = iter(range(count))

    async def submit() -> None:
        for _ in left:
            await _submit(api, "plain", None)

    await asyncio.gather(*(submit() for _ in range(CONNECTIONS)))
    await asyncio.to_thread(ends.await_success, goal)


async def _gather(api: ClientSession, ends: Ends, count: int) -> None:
    goal = len(ends.newest) + count + 1
    job_id = await _submit(api, "fan_out", {"jobs": count, "limit": _LIMIT})
    await asyncio.to_thread(ends.await_success, goal)
    if ends.newest[job_id].result != str(count):
        raise SystemExit(f"the parent got {ends.newest[job_id].result} results, not {count}")


async def _submit(api: ClientSession, type_: str, value: object) -> str:
    body = {"type": type_, "input": value}
    async with api.post(f"/v1/tenants/{TENANTS[0]}/jobs", json=body) as answer:
        answer.raise_for_status()
        return str((await answer.json())["job_id"])


def _costs(contender: str, spent: float, seconds: float, jobs: int) -> list[Result]:
    return [
        Result(contender, "all jobs", round(seconds, 2), "s"),
        Result(contender, "processor time a job", round(spent / jobs * 1e6), "us"),
    ]


def _sizes(pipeline: Tidegate) -> list[Result]:
    """The largest records of a parent, and of a workflow."""
    jobs = [m.value() or b"" for m in scan(pipeline.bootstrap, load(), "jobs")]
    parents = [len(value) for value in jobs if value and JOB.decode(value).type == "fan_out"]
    flows = [len(m.value() or b"") for m in scan(pipeline.bootstrap, load(), "workflows")]
    return [
        Result("records", "largest of a parent", max(parents), "bytes"),
        Result("records", "largest of a workflow", max(flows), "bytes"),
    ]


if __name__ == "__main__":
    main()
