"""What the dispatcher's bookkeeping costs as tenants, jobs, workers and partitions grow.

    python benchmarks/bench_scale.py [--quick] [--json]

No broker: one partition's dispatcher on a RocksDB store of its own, each size in a process of its
own. `restored`: all live jobs are read from the store, in parts between which a stage polls; the
bound holds for its processor time, since others use the cores, too.
`first worker`: the lanes of a type are put in order because a worker handles it. `lease`: the next
job is taken and its tenant charged; the worker has credits for all. `idle punctuation`: jobs wait,
no worker has credits. `heard`: a heartbeat of one of so many workers with two leases each. A figure
is a median unless it says otherwise. `schedule` is in `scale_schedule.py`, and `rebuilt from the
topic` in `scale_rebuild.py`. A row over its bound makes the exit code 1.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness import Result, arguments, report
from scale_rebuild import rebuilt
from scale_schedule import schedule

from streams.dispatcher import live_index
from streams.dispatcher.part import Change
from streams.dispatcher.stage import Dispatcher
from streams.dispatcher.workers.registry import WorkerRegistry
from streams.dispatcher.workers.roster import Roster
from streams.fairness.ready_queue import Ready, ReadyQueue
from streams.runtime.clock import VirtualClock
from streams.runtime.context import TaskContext
from streams.runtime.link import Rights
from streams.serde.job_states import PENDING, RUNNING
from streams.serde.link import commands, frames
from streams.serde.records import Command, Handler, Heartbeat, HeldLease
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables
from streams.state.overlay import Overlay
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Checkpoint
from streams.topology.load import load

TOPOLOGY = load()
NOW = 1_790_000_000_000
TYPES = ("draft_reply", "refund", "summarize")
HANDLERS = tuple(Handler(type_, 5, (10.0, 30.0, 120.0, 600.0), 300) for type_ in TYPES)
SIZES = ((10, 100_000), (1_000, 100_000), (10_000, 1_000_000), (100_000, 1_000_000))
QUICK = ((10, 10_000), (1_000, 20_000), (10_000, 50_000))
WORKERS = (10, 100, 1_000)
LEASES = 2_000
_CHUNK = 50_000

Bounded = tuple[Result, float | None]
"""A figure and the most that it may be."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    chosen = parser.parse_args()
    rows: list[Bounded] = []
    for tenants, jobs in QUICK if chosen.quick else SIZES:
        rows += apart(one_partition, tenants, jobs)
    rows += apart(rebuilt, (10_000 if chosen.quick else 200_000))
    for workers in WORKERS:
        rows += apart(heard, workers)
    rows += schedule()
    report("scale", [with_bound(*row) for row in rows], as_json=chosen.json)
    sys.exit(any(bound is not None and result.value > bound for result, bound in rows))


def with_bound(result: Result, bound: float | None) -> Result:
    if bound is None:
        return result
    verdict = "at most" if result.value <= bound else "OVER"
    return replace(result, metric=f"{result.metric} ({verdict} {bound:,g})")


def apart(measure: Callable[..., list[Bounded]], *sizes: int) -> list[Bounded]:
    """Measure in a process of its own: its memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, sizes)


def one_partition(tenants: int, jobs: int) -> list[Bounded]:
    """One partition with so many waiting jobs of so many tenants."""
    name = f"{tenants:,} tenants, {jobs:,} jobs"
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        tables = RocksTables(Path(folder) / "jobs", "bench", RocksMemory())
        backend = KeyValueBackend(tables)
        fill(backend, tenants, jobs)
        ctx = context(backend)
        for _ in ctx.store("jobs").range(b"l", b"m"):
            pass  # its blocks are in the cache, and not counted below
        gc.collect()
        dispatcher = Dispatcher(TOPOLOGY, Roster(TOPOLOGY.leases), 0)
        before = resident()
        rows = restore(name, dispatcher, ctx)
        rows += in_order(name, dispatcher, ctx)
        gc.collect()
        each = (resident() - before) / jobs
        rows.append((Result(name, "resident, in order", each, "bytes/job"), 400.0))
        rows += served(name, dispatcher, ctx)
        tables.close()
    return rows


def context(backend: KeyValueBackend) -> TaskContext:
    stores = {"jobs": Overlay(backend)}
    for store in ("checkpoints", "ledger"):
        stores[store] = Overlay(KeyValueBackend(MemoryTables()))
    return TaskContext(0, VirtualClock(NOW), stores, lambda *_: True)


def fill(backend: KeyValueBackend, tenants: int, jobs: int) -> None:
    """Entries of waiting jobs, as their writes leave them."""
    chance = random.Random(7)
    for start in range(0, jobs, _CHUNK):
        entries: dict[bytes, bytes | None] = {}
        for number in range(start, min(start + _CHUNK, jobs)):
            live = waiting(f"tnt_{number % tenants:06d}", number, chance)
            job_id = f"job_{chance.getrandbits(125):026x}"[:30]
            key, value = live_index.dump(job_id, live)
            entries[key] = value
        backend.write(entries, Checkpoint(start, NOW))


def waiting(tenant: str, number: int, chance: random.Random) -> live_index.Live:
    at = NOW - chance.randrange(300_000)
    type_ = TYPES[number % 7 % 3]
    return live_index.Live(
        PENDING,
        at,
        tenant,
        type_,
        "default",
        "webhook",
        epoch=0,
        worker_id=None,
        confirmed=False,
        cancel=None,
    )


def running(worker: str) -> live_index.Live:
    live = waiting("t", 0, random.Random(7))
    return live._replace(status=RUNNING, epoch=1, worker_id=worker)


def restore(name: str, dispatcher: Dispatcher, ctx: TaskContext) -> list[Bounded]:
    parts, started, worked = [], time.perf_counter(), time.thread_time()
    built = dispatcher.restored(ctx)
    while True:
        began = time.perf_counter()
        if next(built, built) is built:
            break
        parts.append(time.perf_counter() - began)
    took, worked = time.perf_counter() - started, time.thread_time() - worked
    return [
        (Result(name, "restored", took, "s"), None),
        (Result(name, "restored, processor time", worked, "s"), 10.0),
        (Result(name, "one part", statistics.median(parts) * 1e3, "ms"), 50.0),
    ]


def in_order(name: str, dispatcher: Dispatcher, ctx: TaskContext) -> list[Bounded]:
    """The first worker comes, and punctuations follow until every lane has its place."""
    dispatcher.shared.workers.roster.connected("w/1", "default", HANDLERS, Rights())
    dispatcher.shared.unrouted = False  # the topology is the one of before
    queue = dispatcher.shared.queue.queues["default"]
    took = timed(lambda: punctuate(dispatcher, ctx), 1)
    while queue._opening:
        took += timed(lambda: punctuate(dispatcher, ctx), 1)
    return [
        (Result(name, "first worker, longest step", max(took) * 1e3, "ms"), None),
        (Result(name, "first worker, steps", len(took), "steps"), None),
    ]


def served(name: str, dispatcher: Dispatcher, ctx: TaskContext) -> list[Bounded]:
    queue = dispatcher.shared.queue.queues["default"]
    idle = timed(lambda: punctuate(dispatcher, ctx), 300)
    leases = timed(lambda: lease(queue, ctx.now), LEASES)
    pushes = timed(lambda: push(queue, ctx.now, next(_NUMBERS)), LEASES)
    return [
        (Result(name, "idle punctuation", statistics.median(idle) * 1e3, "ms"), 1.0),
        (Result(name, "one lease (`take`)", statistics.median(leases) * 1e6, "us"), 50.0),
        (Result(name, "one push", statistics.median(pushes) * 1e6, "us"), 50.0),
    ]


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


_NUMBERS = _numbers()


def punctuate(dispatcher: Dispatcher, ctx: TaskContext) -> None:
    dispatcher.punctuate(ctx.now, ctx)
    dispatcher.initiate(ctx, None)
    ctx.log.committed()


def lease(queue: ReadyQueue, now: int) -> None:
    taken = queue.take(now, TYPES)
    if taken is not None:
        queue.started(taken.tenant_id)


def push(queue: ReadyQueue, now: int, number: int) -> None:
    tenant = f"tnt_{number * 7919 % 1_000:06d}"
    queue.push(Ready(now, f"job_{number:026d}", tenant, TYPES[number % 3], "webhook"))


def timed(call: Callable[[], object], times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return took


def heard(workers: int) -> list[Bounded]:
    """One heartbeat, decoded and taken in, among so many workers that have two leases each."""
    roster = Roster(TOPOLOGY.leases)
    registry = WorkerRegistry(TOPOLOGY.leases, roster, 0)
    words = []
    for number in range(workers):
        name = f"w{number}/1"
        leases = tuple(HeldLease(f"job_{number:025d}{n}", 1, False) for n in range(2))
        roster.connected(name, "default", HANDLERS, Rights())
        roster.heard(name, 1, 4, draining=False, now=NOW / 1000)
        for held in leases:
            registry.changed(Change(held.job_id, None, running(name)))
        body = Heartbeat(leases)
        order = commands.order(0, 1, Command("", "", "", 0, NOW, body))
        words.append((name, frames.encoded(order)))
    took = [timed(partial(take_in, registry, *word), 5) for word in words]
    median = statistics.median(one for each in took for one in each)
    return [(Result(f"{workers:,} workers", "one heartbeat heard", median * 1e6, "us"), 200.0)]


def take_in(registry: WorkerRegistry, name: str, word: bytes) -> None:
    body = commands.command(word, NOW).body
    if isinstance(body, Heartbeat):
        registry.heard(name, body, NOW / 1000)


def resident() -> int:
    """Bytes of this process in memory (proc(5), `statm`)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
