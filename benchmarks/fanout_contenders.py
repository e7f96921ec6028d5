"""Lets `tidegate analytics`, plain Faust and Quix Streams count events in windows, in turns.

A contender is one process with the settings that the sweeps of `bench_dedup` left it, but for
Faust's compression. It runs with the rows that analytics has, and with the numbers of events alone.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from contenders import environments
from contenders.event_rows import WINDOWS_MS, told
from dedup_contenders import FAUST, QUIX, Contender
from dedup_speed import Process, Progress, Speed, Stalled, measure, running
from harness import Result
from outside import APPLICATION_PATH, HERE, OVERLAY, GroupOffsets, stage

from streams.cli.api_client import CallFailed, call
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TOKEN = "of-the-benchmark"
OURS = "analytics"
SECONDS = 40
"""What each gets, its start included; then it has counted what it has counted."""
_SINCE = "2026-01-01T00:00:00Z"
_FAUST = replace(FAUST, settings={**FAUST.settings, "producer_compression_type": "null"})
"""It writes rows of 4 KiB for each event, and would spend much of its time on compressing them."""
_PYTHONS: dict[str, Callable[[], str]] = {
    "faust": lambda: sys.executable,
    "quix": lambda: str(environments.python("quix")),
}


@dataclass(frozen=True)
class Topic:
    """A filled topic `events`, and a URL and a folder to work at."""

    bootstrap: str
    events: int
    url: str
    folder: Path


class Miscounted(Exception):
    """Rows lack a counted event, or have one twice."""


@dataclass(frozen=True)
class Run:
    """`done` are the events counted in time, `told` those that the rows had in the end."""

    speed: Speed
    done: int
    told: int | None

    def checked(self, events: int, log: Path) -> Run:
        """Itself, unless the rows lack one of the events that it counted, or have one twice.

        Raises:
            Miscounted: with the end of its log.
        """
        if self.told is None or not self.done <= self.told <= events:
            why = f"of {events} events {self.done} were counted, {self.told} in rows"
            raise Miscounted(f"{why}\n{log.read_text(errors='replace')[-3_000:]}")
        return self


def contest(topic: Topic, rounds: int) -> tuple[list[Result], bool]:
    """The medians of everybody's rounds, and whether some run does not count."""
    runs, void = defaultdict[str, dict[int, Run]](dict), list[Result]()
    for number in range(rounds):
        for name, start in _turns():
            try:
                run = start(topic, topic.folder / f"{name}-{number}".replace(" ", "-"))
            except environments.Unavailable as why:
                print(f"{name} is skipped: {why}", file=sys.stderr)
            except (Stalled, Miscounted) as why:
                print(f"{name} is void: {why}", file=sys.stderr)
                void.append(Result(name, f"void, round {number + 1}", 1, "runs"))
            else:
                runs[name][number] = run
    return [*(row for name in runs for row in _rows(name, runs, topic.events)), *void], bool(void)


def _turns() -> Iterator[tuple[str, Callable[[Topic, Path], Run]]]:
    yield OURS, _analytics
    for contender in (_FAUST, QUIX):
        yield contender.name, partial(_contender, contender, "true")
        yield f"{contender.name} numbers", partial(_contender, contender, "false")


def _rows(name: str, runs: Mapping[str, Mapping[int, Run]], events: int) -> Iterator[Result]:
    of_it, ours = runs[name], runs[OURS]
    rate = statistics.median(run.speed.rate for run in of_it.values())
    cpu = statistics.median(run.speed.cpu_us for run in of_it.values())
    yield Result(name, "counted", rate, "events/s")
    yield Result(name, "processor time", cpu, "us/event")
    ratios = [ours[n].speed.rate / run.speed.rate for n, run in of_it.items() if n in ours]
    if ratios and name != OURS:
        yield Result(name, "analytics to it", round(statistics.median(ratios), 2), "times")
    done = min(run.done for run in of_it.values())
    if done < events:
        yield Result(name, f"not all within {SECONDS} s, but", done, "events")


def _analytics(topic: Topic, folder: Path) -> Run:
    """Our stage; its tables are new in each folder, and decide where it begins."""
    folder.mkdir()
    port, env = topic.url.rpartition(":")[2], {"TIDEGATE_ADMIN_TOKEN": TOKEN}
    summary = _Summary(topic.url)
    with stage(OURS, topic.bootstrap, folder, "--port", port, env=env) as process:
        speed, done = _in_time(summary, process, topic.events)
        return Run(speed, done, summary.total()).checked(topic.events, folder / f"{OURS}.log")


def _contender(contender: Contender, subjects: str, topic: Topic, folder: Path) -> Run:
    wiring = {
        "bootstrap": topic.bootstrap,
        "group": folder.name,
        "input": "events",
        "subjects": subjects,
        "state": str(folder),
        **contender.settings,
    }
    if contender.name == FAUST.name:
        wiring["partitions"] = str(TOPOLOGY.partitions)
        _create_changelogs(topic.bootstrap, folder.name)
    program = HERE / "contenders" / f"{contender.name}_counts.py"
    command = [_PYTHONS[contender.name](), str(program), *(f"{k}={v}" for k, v in wiring.items())]
    offsets = GroupOffsets(topic.bootstrap, folder.name, TOPOLOGY, "events")
    log = folder.with_suffix(".log")
    try:
        with running(command, log, {"PYTHONPATH": APPLICATION_PATH}) as process:
            speed, done = _in_time(offsets, process, topic.events)
    finally:
        offsets.close()
    run = Run(speed, done, told(log.read_text(errors="replace")))
    return run.checked(topic.events, log)


def _create_changelogs(bootstrap: str, group: str) -> None:
    """Faust would create them too late: its agents crash on the first events, one each 5 s."""
    admin, config = AdminClient({"bootstrap.servers": bootstrap}), {"cleanup.policy": "compact"}
    names = [f"{group}-{window}-changelog" for window in WINDOWS_MS]
    wanted = [NewTopic(name, TOPOLOGY.partitions, 1, config=config) for name in names]
    for created in admin.create_topics(wanted).values():
        created.result(30)


def _in_time(progress: Progress, process: Process, events: int) -> tuple[Speed, int]:
    """Its speed until nine tenths are counted, for then it is still busy; and its whole count."""
    deadline = time.perf_counter() + SECONDS
    speed = measure(progress, [process], events * 9 // 10, deadline)
    while (done := progress.total()) < events and time.perf_counter() < deadline:
        time.sleep(0.1)
    return speed, done


class _Summary:
    """How many events our stage has counted; asking costs it some 20 ms."""

    def __init__(self, url: str) -> None:
        self._url = url

    def total(self) -> int:
        time.sleep(0.9)
        try:
            query = {"since": _SINCE}
            found = call(self._url, TOKEN, "GET", "/v1/analytics/summary", query=query)
        except CallFailed:
            return 0
        return int(found.get("events", 0))
