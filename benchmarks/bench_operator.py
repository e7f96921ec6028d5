"""Rows a second into the operator's read model, reads a second out of it, and its rebuild.

    python benchmarks/bench_operator.py [--jobs 15000] [--reads 2000] [--lists 100] [--json]

`tidegate operator` follows empty topics; then two records of every job, running and ended, are
written to `jobs`, and some dead letters and events beside them. Of the first 15,000 jobs, the clock
stops when the API shows the last one of every tenant as ended; others only make the lists longer.
Then 16 connections read single jobs, and one connection reads each list, and each page of the
console as a browser that has signed in. At the end the operator
starts on the full topics without a database, and the clock stops when it is ready.

All jobs are compared before and after that: each must be there once, in its last state, else the
exit code is 1.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
from aiohttp import ClientError, ClientSession, CookieJar
from harness import Result, arguments, broker_and_folder, create_topics, report
from operator_records import AT_ONCE, TENANTS, TOPOLOGY, Sent, final_status, of_jobs, write
from operator_rows import missing
from outside import percentiles, stage
from yarl import URL

CONNECTIONS = 16
WAIT_SECONDS = 50.0
LOADED_A_SECOND = 2_000
"""A larger number of jobs may take a second more for each so many."""
TOKEN = secrets.token_hex(16)
LISTS = (
    "/v1/jobs",
    "/v1/jobs?tenant_id=tenant7",
    "/v1/jobs?status=failed",
    "/v1/jobs?status=succeeded&limit=200",
    "/v1/jobs?type=plain3",
    "/v1/jobs?tenant_id=tenant0&status=failed",
    "/v1/jobs?tenant_id=tenant7&type=plain7",
    "/v1/jobs?tenant_id=tenant7&type=plain3",
    "/v1/dlq",
    "/v1/dlq?tenant_id=tenant0",
    "/v1/events",
    "/v1/events?tenant_id=tenant-10",
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=AT_ONCE)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--lists", type=int, default=100, help="how often each list is read")
    chosen = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with broker_and_folder() as (bootstrap, folder):
        create_topics(bootstrap, TOPOLOGY, tuple(TOPOLOGY.topics))
        measured = Measured(bootstrap, folder, port, chosen.jobs)
        asyncio.run(measured.folding(chosen.reads, chosen.lists))
        shutil.rmtree(folder / "state")
        asyncio.run(measured.rebuilding())
    report("operator", measured.results, as_json=chosen.json)
    sys.exit(1 if measured.wrong else 0)


PAGES = (
    "/console",
    "/console/causes",
    "/console/dlq",
    "/console/jobs",
    "/console/jobs?status=failed",
    "/console/jobs/job_7",
    "/console/events",
    "/console/workers",
)


class Measured:
    """One run on one broker: what it found so far."""

    def __init__(self, bootstrap: str, folder: Path, port: int, jobs: int) -> None:
        self.results: list[Result] = []
        self.wrong = 0
        self._bootstrap = bootstrap
        self._folder = folder
        self._port = port
        self._jobs = jobs
        self._records = 0
        self._seconds = WAIT_SECONDS + jobs / LOADED_A_SECOND

    async def folding(self, reads: int, lists: int) -> None:
        with self._operator() as process:
            async with self._api() as api:
                await self._until(lambda: answers(api, "/readyz"), process, "the operator is ready")
                await self._fold(api, process)
                self.results += await read(api, min(self._jobs, AT_ONCE), reads)
                for path in LISTS:
                    self.results += await read_list(api, path, lists)
            for path in PAGES:
                self.results += await read_page(self._port, path, lists)
        self._compare("read model")

    async def rebuilding(self) -> None:
        with self._operator() as process:
            async with self._api() as api:
                started = time.perf_counter()
                await self._until(lambda: answers(api, "/readyz"), process, "all is rebuilt")
                rate = self._records / (time.perf_counter() - started)
        self.results.append(Result("rebuild", "records, start to ready", round(rate, 1), "1/s"))
        self._compare("rebuild")

    async def _fold(self, api: ClientSession, process: subprocess.Popen[bytes]) -> None:
        """Time the first jobs, whose records are made beforehand, and add the others."""
        first = min(AT_ONCE, self._jobs)
        records = [each for each in of_jobs(range(first)) if each.topic == "jobs"]
        started = time.perf_counter()
        self._records += await asyncio.to_thread(write, self._bootstrap, records)
        await self._all_shown(api, process, range(first))
        rate = len(records) / (time.perf_counter() - started)
        self.results.append(Result("read model", "job records", round(rate, 1), "rows/s"))
        self._records += await asyncio.to_thread(write, self._bootstrap, self._others())
        await self._all_shown(api, process, range(self._jobs))

    def _others(self) -> Iterator[Sent]:
        first = of_jobs(range(min(AT_ONCE, self._jobs)))
        yield from (each for each in first if each.topic != "jobs")
        for begin in range(AT_ONCE, self._jobs, AT_ONCE):
            yield from of_jobs(range(begin, min(begin + AT_ONCE, self._jobs)))

    async def _all_shown(
        self, api: ClientSession, process: subprocess.Popen[bytes], numbers: range
    ) -> None:
        """Return once the API shows the last job of every tenant as ended."""
        for last in numbers[-TENANTS:]:
            await self._until(partial(shows, api, last), process, "all rows are shown")

    def _compare(self, contender: str) -> None:
        (path,) = self._folder.glob("state/operator/*/read_model.sqlite")
        wrong = missing(path, self._jobs)
        self.wrong += wrong
        self.results.append(Result(contender, "missing or wrong", wrong, "rows"))

    async def _until(
        self,
        condition: Callable[[], Awaitable[bool]],
        process: subprocess.Popen[bytes],
        what: str,
    ) -> None:
        await until(condition, process, what, self._seconds)

    @contextmanager
    def _operator(self) -> Iterator[subprocess.Popen[bytes]]:
        env = {"TIDEGATE_ADMIN_TOKEN": TOKEN}
        port = str(self._port)
        with stage("operator", self._bootstrap, self._folder, "--port", port, env=env) as process:
            yield process

    def _api(self) -> ClientSession:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return ClientSession(f"http://127.0.0.1:{self._port}", headers=headers)


async def until(
    condition: Callable[[], Awaitable[bool]],
    process: subprocess.Popen[bytes],
    what: str,
    seconds: float = WAIT_SECONDS,
) -> None:
    """Return once the API shows it; a stage that ended, or too long a wait, ends the program."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if process.poll() is not None:
            raise SystemExit(f"the operator ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.02)


async def answers(api: ClientSession, path: str) -> bool:
    try:
        async with api.get(path) as answer:
            return answer.status == 200
    except ClientError:
        return False


async def shows(api: ClientSession, number: int) -> bool:
    async with api.get(f"/v1/jobs/job_{number}") as answer:
        return answer.status == 200 and (await answer.json())["status"] == final_status(number)


async def read(api: ClientSession, jobs: int, reads: int) -> list[Result]:
    """Single jobs over all connections at once."""
    turn, took = iter(range(reads)), []

    async def connection() -> None:
        for number in turn:
            began = time.perf_counter()
            if not await shows(api, number * 7 % jobs):
                raise SystemExit("a job that was shown is shown no more")
            took.append(time.perf_counter() - began)

    started = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    rate = reads / (time.perf_counter() - started)
    name = f"GET /v1/jobs/{{id}}, {CONNECTIONS} connections"
    return [Result(name, "requests", round(rate, 1), "1/s"), *percentiles(name, "latency", took)]


async def read_page(port: int, path: str, reads: int) -> list[Result]:
    """A page of the console, again and again, in the session of the token."""
    origin, took = f"http://127.0.0.1:{port}", list[float]()
    jar = CookieJar(unsafe=True, treat_as_secure_origin=[URL(origin)])
    async with ClientSession(origin, cookie_jar=jar) as browser:
        async with browser.post("/console/sign-in", data={"token": TOKEN, "next": path}) as entered:
            entered.raise_for_status()
        for _ in range(reads):
            began = time.perf_counter()
            async with browser.get(path, allow_redirects=False) as answer:
                answer.raise_for_status()
                if "<h1>" not in await answer.text():
                    raise SystemExit(f"{path} is no page")
            took.append(time.perf_counter() - began)
    return percentiles(f"GET {path}", "latency", took)


async def read_list(api: ClientSession, path: str, reads: int) -> list[Result]:
    """A list's pages one after the other, from the first one on again after its end."""
    took, cursor = list[float](), ""
    for _ in range(reads):
        began = time.perf_counter()
        async with api.get(path, params={"cursor": cursor} if cursor else {}) as answer:
            answer.raise_for_status()
            page = await answer.read()
        took.append(time.perf_counter() - began)
        cursor = orjson.loads(page)["next_cursor"] or ""
    return percentiles(f"GET {path}", "latency", took)


if __name__ == "__main__":
    main()
