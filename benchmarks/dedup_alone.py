"""The dedup stage by itself: with many keys, as two processes, one record at a time, killed."""

from __future__ import annotations

import json
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dedup_contenders import Contender, Wiring, stage_command
from dedup_speed import Process, Speed, measure, memory_mib, running
from dedup_topic import (
    INPUT,
    OUTPUT,
    TOPOLOGY,
    Faults,
    create_stage_topics,
    delivery,
    faults,
    fill,
    fill_changelog,
    send,
)
from harness import Result, broker_and_folder
from outside import GroupOffsets, Reader, flush, percentiles, producer, until

WARM_UP = 50
HOPS = 500
KILLS = 5
EVENTS_A_KILL = 40_000
"""At least: each kill, and each start after one, needs a batch or two of 10,000 to be seen by."""
RECENT_MS = 60_000
_JSON_LOG = {"TIDEGATE_LOG_FORMAT": "json"}
_PATIENT = {"TIDEGATE_KAFKA_SESSION_TIMEOUT_MS": "120000"}


@dataclass(frozen=True)
class Stand:
    """A broker of its own with the stage's empty topics, and an empty folder."""

    bootstrap: str
    folder: Path

    @contextmanager
    def stage(self, instance: int = 0, **env: str) -> Iterator[Process]:
        command = stage_command(self.bootstrap, self.folder / "state", "--instance", str(instance))
        with running(command, self.log(instance), {**_JSON_LOG, **env}) as process:
            yield process

    @contextmanager
    def contender(self, who: Contender) -> Iterator[Process]:
        place = Wiring(self.bootstrap, INPUT, OUTPUT, who.name, self.folder / "state")
        with running(who.command(place, who.settings), self.log()) as process:
            yield process

    def log(self, instance: int = 0) -> Path:
        return self.folder / f"dedup-{instance}.log"

    def said(self, event: str, instance: int = 0) -> list[dict[str, Any]]:
        """The log's entries of one kind; a line still being written is none."""
        lines = self.log(instance).read_text().splitlines(keepends=True)
        entries = [json.loads(x) for x in lines if x.startswith("{") and x.endswith("\n")]
        return [entry for entry in entries if entry["event"] == event]

    def offsets(self) -> GroupOffsets:
        return GroupOffsets(self.bootstrap, "dedup", TOPOLOGY, INPUT)


@dataclass(frozen=True)
class Measured:
    """Figures, which count only if the output was right."""

    results: list[Result]
    faults: Faults


@contextmanager
def stand() -> Iterator[Stand]:
    with broker_and_folder() as (bootstrap, folder):
        create_stage_topics(bootstrap)
        yield Stand(bootstrap, folder)


def with_keys(keys: int, events: int, duplicates: float) -> Measured:
    """Restore a store of this size, then deduplicate; the deliveries are of now."""
    name = f"{keys:,} keys in the store"
    with stand() as on:
        fill_changelog(on.bootstrap, keys)
        expected = fill(on.bootstrap, INPUT, events, duplicates, RECENT_MS)
        with on.stage() as process:
            # The first commit comes when all is restored.
            offsets = on.offsets()
            _until_beyond(0, offsets, process, 600)
            speed = measure(offsets, [process], events)
            resident = memory_mib(process, "VmRSS")
        restored = on.said("store restored")
        found = faults(on.bootstrap, OUTPUT, expected)
        disk = sum(p.stat().st_size for p in (on.folder / "state").rglob("*") if p.is_file())
    seconds = max(store["seconds"] for store in restored)
    count = sum(store["entries"] for store in restored)
    results = [
        *throughput(name, speed),
        Result(name, "keys restored", count, "keys"),
        Result(name, "restore", count / seconds, "keys/s"),
        Result(name, "resident at the end", resident, "MiB"),
        Result(name, "state on disk", disk / 2**20, "MiB"),
    ]
    return _measured(name, results, found)


def as_processes(count: int, events: int, duplicates: float) -> Measured:
    """Instances that share the partitions, and are let go at once when the topic is full."""
    name = f"{count} processes"
    with stand() as on, ExitStack() as stages:
        processes = [stages.enter_context(on.stage(number, **_PATIENT)) for number in range(count)]
        shares = TOPOLOGY.partitions // count
        for number, process in enumerate(processes):
            until(partial(_has, on, number, shares), process, "its partitions")
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        expected = fill(on.bootstrap, INPUT, events, duplicates)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        speed = measure(on.offsets(), processes, events)
        found = faults(on.bootstrap, OUTPUT, expected)
    return _measured(name, throughput(name, speed), found)


def _has(on: Stand, instance: int, partitions: int) -> bool:
    """Whether the instance works on so many, by its log's last word on it."""
    said = on.said("running", instance)
    return bool(said) and len(said[-1]["partitions"]) == partitions


def idle_hop(contender: Contender) -> Measured:
    """From `produce` to the moment at which a reader of committed records has the event."""
    with stand() as on, on.contender(contender) as process:
        sender, reader = producer(on.bootstrap, linger_ms=0), Reader(on.bootstrap, TOPOLOGY, OUTPUT)
        expected, seconds = set(), []
        for number in range(WARM_UP + HOPS):
            now = time.time_ns() // 1_000_000
            envelope = delivery(number, number, now)
            expected.add(envelope.fingerprint)
            began = time.perf_counter()
            send(sender, INPUT, envelope, now)
            flush(sender)
            until(lambda: bool(reader.read()), process, f"event {number} on {OUTPUT}")
            seconds.append(time.perf_counter() - began)
        reader.close()
        found = faults(on.bootstrap, OUTPUT, expected)
    name = f"idle hop, {contender.name}"
    return _measured(name, percentiles(name, "one record", seconds[WARM_UP:]), found)


def killed(events: int, duplicates: float) -> Measured:
    """SIGKILL under load, start the same instance at once, until it commits again."""
    if events < KILLS * EVENTS_A_KILL:
        raise SystemExit(f"--recover needs --events {KILLS * EVENTS_A_KILL} or more")
    with stand() as on:
        expected = fill(on.bootstrap, INPUT, events, duplicates)
        offsets = on.offsets()
        seconds = [
            _recovery(on, offsets, events * number // (KILLS + 1)) for number in range(1, KILLS + 1)
        ]
        with on.stage() as process:
            _until_beyond(events - 1, offsets, process)
        found = faults(on.bootstrap, OUTPUT, expected)
    name = f"{KILLS} times killed under load"
    results = [
        Result(name, "kill to next commit, median", statistics.median(seconds), "s"),
        Result(name, "kill to next commit, slowest", max(seconds), "s"),
    ]
    return _measured(name, results, found)


def _recovery(on: Stand, offsets: GroupOffsets, after: int) -> float:
    """Seconds; the kill comes once the stage, while it runs, has committed more than `after`."""
    with on.stage() as process:
        _until_beyond(max(after, offsets.total()), offsets, process)
        process.kill()
        began = time.perf_counter()
        process.wait()
    before = offsets.total()
    with on.stage() as process:
        _until_beyond(before, offsets, process)
        return time.perf_counter() - began


def _until_beyond(
    reached: int, offsets: GroupOffsets, process: Process, seconds: float = 120
) -> None:
    """Return once more is committed; asks the broker 50 times a second, which costs it little."""

    def beyond() -> bool:
        time.sleep(0.02)
        return offsets.total() > reached

    until(beyond, process, f"more than {reached} events committed", seconds)


def throughput(name: str, speed: Speed) -> list[Result]:
    return [
        Result(name, "throughput", speed.rate, "events/s"),
        Result(name, "processor time", speed.cpu_us, "us/event"),
        Result(name, "peak resident", speed.peak_mib, "MiB"),
    ]


def _measured(name: str, results: list[Result], found: Faults) -> Measured:
    wrong = Result(name, "lost, repeated or unknown", found.total, "events")
    return Measured([*results, wrong], found)
