"""Many workers on a few owners of jobs: what a connection costs, and what an owner's end costs.

    python benchmarks/bench_link.py [--workers 200] [--owners 4] [--quick] [--json]

A whole pipeline runs, with as many `pipeline` processes as owners, and the workers run in four
processes of their own. `worker`: from the start of a `tidegate worker` process, and from its first
line in the log, until 16 waiting jobs have begun, some of each owner. `connected`: what the
connections of all workers add to an owner without work. `holding`: the same while each worker holds
leases, which it lists in its heartbeats. `one owner frozen`: jobs that make an effect again and
again are run; an owner stops without ending its connections (SIGSTOP), so that another one inherits
its partitions once the session of its group ends (10 s). `longest pause` is between two effects of
a job of such a partition. Every effect must be made once, in the first attempt of its job, else the
exit code is 1. The rows of 1,000 workers and 16 owners are calculated from the measured ones.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import orjson
from dedup_speed import Process, processor_seconds, running
from harness import Result, arguments, report
from jobs_run import process_seconds
from link_pipeline import Bench, until
from outside import HERE, OVERLAY
from sources import create_sources

from streams.dev.layout import Layout
from streams.dev.pipeline import Pipeline
from streams.settings import Settings

HOSTS, SLOTS = 4, 5
WAITING = 16
"""Jobs of so many tenants wait for the worker that starts: each owner has some of them."""
TICKING = 4
"""One job for so many workers makes effects while an owner freezes."""
MANY_WORKERS, MANY_OWNERS = 1_000, 16
_WARM_SECONDS = 5.0
_FROZEN_SECONDS = 25.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--owners", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="of each look")
    parser.add_argument("--quick", action="store_true", help="a few workers, short looks")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.workers, chosen.owners, chosen.seconds = 8, 2, 5.0
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        results = asyncio.run(piped(Path(folder), chosen))
    report("link", results, as_json=chosen.json)
    sys.exit(1 if any(r.value for r in results if r.metric == "lost or not once") else 0)


async def piped(folder: Path, chosen: Namespace) -> list[Result]:
    """Everything, over a pipeline that runs in this event loop."""
    notes, released = folder / "notes", folder / "released"
    notes.touch()
    settings = Settings(data_dir=folder / "data", port=0, topology=OVERLAY, log_level="warning")
    layout = Layout(pipeline=chosen.owners, worker=0)
    async with Pipeline(settings, layout, app="bench_app:app") as pipeline:
        await create_sources(pipeline.url, pipeline.credentials.admin_token)
        bench = Bench(pipeline, notes, released)
        return await asyncio.to_thread(lambda: list(measured(bench, folder, chosen)))


def measured(bench: Bench, folder: Path, chosen: Namespace) -> Iterator[Result]:
    yield from first_lease(bench, folder)
    alone = look(bench, chosen.seconds)
    with hosts(bench, folder, chosen.workers) as processes:
        until(lambda: bench.connected() == [chosen.workers] * chosen.owners, "all are connected")
        time.sleep(_WARM_SECONDS)
        idle = look(bench, chosen.seconds)
        name = f"{chosen.workers} workers x {chosen.owners} owners"
        yield from cost(f"{name}, connected", alone, idle, chosen.workers)
        bench.until_noted(bench.send(chosen.workers * SLOTS // 2, "held.made"))
        before = sum(map(processor_seconds, processes))
        busy = look(bench, chosen.seconds)
        spent = (sum(map(processor_seconds, processes)) - before) / chosen.seconds
        yield from cost(f"{name}, holding", alone, busy, chosen.workers)
        yield Result(f"{name}, holding", "of a worker", spent / chosen.workers * 1000, "ms/s")
        yield from frozen(bench, chosen.workers)
        bench.released.touch()
        yield Result("all", "lost or not once", bench.not_once() + bench.twice(), "jobs")


def first_lease(bench: Bench, folder: Path) -> Iterator[Result]:
    """A worker that starts while jobs wait; the second start finds its code compiled."""
    log = folder / "worker.log"
    command = [sys.executable, "-m", "streams.cli", "worker", "--app", "bench_app:app"]
    for _ in range(2):
        jobs = bench.send(WAITING, "plain.made")
        began = time.time()
        with running(command, log, bench.environment()):
            bench.until_noted(jobs)
    at = max(bench.noted()[job][0] for job in jobs)
    told = [orjson.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (said,) = [line["timestamp"] for line in told if line.get("event") == "worker starts"][-1:]
    yield Result("worker", "process to handlers", (at - began) * 1000, "ms")
    yield Result(
        "worker",
        "first line to handlers",
        (at - datetime.fromisoformat(said).timestamp()) * 1000,
        "ms",
    )


@contextmanager
def hosts(bench: Bench, folder: Path, workers: int) -> Iterator[list[Process]]:
    """The processes of all workers."""
    share = workers // HOSTS
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running(
                    [
                        sys.executable,
                        str(HERE / "link_workers.py"),
                        str(n * share),
                        str(share),
                        "5",
                    ],
                    folder / f"workers-{n}.log",
                    {**bench.environment(), "TIDEGATE_LOG_LEVEL": "warning"},
                )
            )
            for n in range(HOSTS)
        ]


Look = tuple[float, float]
"""Of an owner: MiB resident, and milliseconds of processor time a second."""


def look(bench: Bench, seconds: float) -> Look:
    """The mean over all owners."""
    pids = [bench.pid(owner) for owner in bench.owners]
    before = sum(map(process_seconds, pids))
    time.sleep(seconds)
    worked = (sum(map(process_seconds, pids)) - before) / seconds * 1000
    return sum(map(resident_mib, pids)) / len(pids), worked / len(pids)


def cost(name: str, alone: Look, now: Look, workers: int) -> Iterator[Result]:
    """What workers add to an owner, and what 1,000 would."""
    memory, worked = (each - before for each, before in zip(now, alone, strict=True))
    yield Result(name, "an owner's memory", now[0], "MiB")
    yield Result(name, "of it a worker's", memory / workers * 1024, "KiB")
    yield Result(name, "an owner's processor time", now[1], "ms/s")
    yield Result(name, "of it a worker's", worked / workers * 1000, "us/s")
    state = name.rpartition(", ")[2]
    many = f"{MANY_WORKERS:,} workers x {MANY_OWNERS} owners, {state}, calculated"
    yield Result(many, "connections", MANY_WORKERS * MANY_OWNERS, "")
    yield Result(many, "an owner's memory", alone[0] + memory / workers * MANY_WORKERS, "MiB")
    yield Result(many, "an owner's time", alone[1] + worked / workers * MANY_WORKERS, "ms/s")


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def frozen(bench: Bench, workers: int) -> Iterator[Result]:
    """Freeze an owner for longer than its session, and look how long its jobs stand still."""
    jobs = bench.send(workers // TICKING, "ticking.made")
    bench.until_noted(jobs, 3)
    victim, since = bench.pid(bench.owners[0]), time.time()
    os.kill(victim, signal.SIGSTOP)
    try:
        time.sleep(_FROZEN_SECONDS)
        noted = bench.noted()
    finally:
        os.kill(victim, signal.SIGCONT)
    pauses = [longest_pause([*noted[job], time.time()], since) for job in jobs]
    moved = [pause for pause in pauses if pause > 2]
    yield Result("one owner frozen", "jobs of its partitions", len(moved), "jobs")
    yield Result("one owner frozen", "longest pause", max(pauses), "s")
    yield Result("one owner frozen", "longest pause of the others", max({*pauses} - {*moved}), "s")


def longest_pause(moments: Sequence[float], since: float) -> float:
    after = [at for at in sorted(moments) if at > since - 1]
    return max(later - at for at, later in pairwise(after))


if __name__ == "__main__":
    main()
