"""Rows a second into the operator's read model, and reads a second out of it.

    python benchmarks/bench_operator.py [--jobs 15000] [--reads 2000] [--json]

`tidegate operator` follows an empty topic; then two records of every job, running and succeeded,
are written to `jobs`. The clock stops when the API shows the last job of every tenant as
succeeded. Afterwards 16 connections read single jobs. All jobs are listed at the end: each must
be there once, succeeded, else the exit code is 1.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from aiohttp import ClientError, ClientSession
from harness import Result, arguments, broker_and_folder, create_topics, report
from outside import OVERLAY, flush, percentiles, producer, stage

from streams.dispatcher.job import begun, ended
from streams.new_jobs import FIRST, from_submission
from streams.serde.codec import JOB
from streams.serde.ids import partition_for
from streams.serde.records import Handler, Job, Submit
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TENANTS = 40
CONNECTIONS = 16
PAGE = 200
WAIT_SECONDS = 50.0
TOKEN = secrets.token_hex(16)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=15_000)
    parser.add_argument("--reads", type=int, default=2_000)
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        env = {"TIDEGATE_ADMIN_TOKEN": TOKEN}
        with stage("operator", bootstrap, folder, "--port", str(port), env=env) as process:
            results, wrong = asyncio.run(
                measure(bootstrap, f"http://127.0.0.1:{port}", process, chosen.jobs, chosen.reads)
            )
    report("operator", results, as_json=chosen.json)
    sys.exit(1 if wrong else 0)


async def measure(
    bootstrap: str, url: str, process: subprocess.Popen[bytes], count: int, reads: int
) -> tuple[list[Result], int]:
    async with ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as api:
        await until(lambda: answers(api, "/readyz"), process, "the operator is ready")
        jobs = [job(number) for number in range(count)]
        records = [
            (each, JOB.encode(each))
            for each in (*jobs, *(ended(j, "succeeded", j.updated_at + 1) for j in jobs))
        ]
        started = time.perf_counter()
        await asyncio.to_thread(write, bootstrap, records)
        for last in {j.tenant_id: j for j in jobs}.values():
            await until(partial(shows, api, last), process, "all rows are shown")
        rate = len(records) / (time.perf_counter() - started)
        results = [
            Result("read model", "job records", round(rate, 1), "rows/s"),
            *await read(api, jobs, reads),
        ]
        wrong = await misshown(api, jobs)
    return [*results, Result("read model", "missing or wrong", wrong, "jobs")], wrong


def job(number: int) -> Job:
    """A job as the dispatcher has it when its first run has begun."""
    now = 1_750_000_000_000 + number
    submit = Submit("plain", "{}", None, None, None, None, None, "bench", b"\7" * 32, None)
    who = f"job_{number}", f"tenant{number % TENANTS}"
    made = from_submission(*who, submit, TOPOLOGY, place=FIRST, at=now, now=now)
    made = begun(made, f"run_{number}", "bench/1", Handler("plain", 3, (1.0,), 30), now)
    return replace(made, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")


def write(bootstrap: str, records: list[tuple[Job, bytes]]) -> None:
    sender = producer(bootstrap, linger_ms=20)
    for each, value in records:
        partition = partition_for(each.tenant_id, TOPOLOGY.partitions)
        sender.produce("jobs", value, each.job_id.encode(), partition)
    flush(sender)


async def until(
    condition: Callable[[], Awaitable[bool]], process: subprocess.Popen[bytes], what: str
) -> None:
    """Return once the API shows it; a stage that ended, or too long a wait, ends the program."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not await condition():
        if process.poll() is not None:
            raise SystemExit(f"the operator ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WAIT_SECONDS:g} s: {what}")
        await asyncio.sleep(0.02)


async def answers(api: ClientSession, path: str) -> bool:
    try:
        async with api.get(path) as answer:
            return answer.status == 200
    except ClientError:
        return False


async def shows(api: ClientSession, job: Job) -> bool:
    async with api.get(f"/v1/jobs/{job.job_id}") as answer:
        return answer.status == 200 and (await answer.json())["status"] == "succeeded"


async def read(api: ClientSession, jobs: list[Job], reads: int) -> list[Result]:
    """Single jobs over all connections at once."""
    turn, took = iter(range(reads)), []

    async def connection() -> None:
        for number in turn:
            began = time.perf_counter()
            if not await shows(api, jobs[number * 7 % len(jobs)]):
                raise SystemExit("a job that was shown is shown no more")
            took.append(time.perf_counter() - began)

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    rate = reads / (time.perf_counter() - started)
    name = f"GET /v1/jobs/{{id}}, {CONNECTIONS} connections"
    return [Result(name, "requests", round(rate, 1), "1/s"), *percentiles(name, "latency", took)]


async def misshown(api: ClientSession, jobs: list[Job]) -> int:
    """Jobs that are not listed, not once, or not as succeeded."""
    found: Counter[tuple[str, str]] = Counter()
    cursor = ""
    while True:
        query = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
        async with api.get("/v1/jobs", params=query) as answer:
            answer.raise_for_status()
            page = await answer.json()
        found.update((each["job_id"], each["status"]) for each in page["jobs"])
        cursor = page.get("next_cursor") or ""
        if not cursor:
            break
    expected = Counter((each.job_id, "succeeded") for each in jobs)
    return sum(((expected - found) + (found - expected)).values())


if __name__ == "__main__":
    main()
