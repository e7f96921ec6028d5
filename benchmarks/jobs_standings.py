"""The figures of bench_jobs: of one run, over the rounds, and beside what is asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness import Result
from jobs_contenders import APART, CELERY, FUSED, PROCRASTINATE
from jobs_run import Load, Run, Seconds
from outside import percentiles

NAMES = {"noop": "no-op", "effect": "one effect"}
RATES = (50, 200, 400)
LOADS = (*NAMES.values(), *(f"{rate}/s" for rate in RATES))
FAULTS = "lost or not once"
HOP = "one plain hop"
PROCESSOR = "processor time"
OTHERS = "busy with others"
OF_IT = "of it "
IDLE = "idle"
START = "answer to handler"


def title(load: Load) -> str:
    """How the figures of a load begin."""
    return f"{load.rate:g}/s" if load.rate else NAMES[load.kind]


def figures(contender: str, load: Load, run: Run) -> list[Result]:
    """Of a run in which every job ended once: how fast, and for how much processor time."""
    name = title(load)
    if load.rate:
        speed = percentiles(contender, f"{name}, {START}", run.latencies)
    else:
        speed = [Result(contender, name, round(run.rate, 1), "jobs/s")]
    others = Result(contender, f"{name}, {OTHERS}", round(run.others, 2), "cores")
    return [*speed, *_processor(contender, name, run.spent, load.count), others]


def _processor(contender: str, name: str, spent: Seconds, jobs: int) -> Iterator[Result]:
    """Microseconds a job, in all and of each component."""
    total = round(sum(spent.values()) / jobs * 1e6)
    yield Result(contender, f"{name}, {PROCESSOR}", total, "us/job")
    for part, seconds in spent.items():
        yield Result(contender, f"{name}, {OF_IT}{part}", round(seconds / jobs * 1e6), "us/job")


def medians(rounds: Iterable[Sequence[Result]]) -> list[Result]:
    """Medians of the rounds, and the sum of all faults; who has any has no other figure."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for result in (result for results in rounds for result in results):
        key = result.contender, result.metric, result.unit
        values.setdefault(key, []).append(result.value)
    faults = {key[0]: sum(found) for key, found in values.items() if key[1] == FAULTS}
    return [
        Result(contender, metric, faults[contender], unit)
        if metric == FAULTS
        else Result(contender, metric, round(statistics.median(found), 2), unit)
        for (contender, metric, unit), found in values.items()
        if metric == FAULTS or not faults.get(contender)
    ]


@dataclass(frozen=True)
class Asked:
    """A figure of ours, divided by another's where one is named, and its bound."""

    name: str
    ours: str
    other: tuple[str, str] | None
    bound: float
    unit: str
    at_least: bool = False

    @property
    def words(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.bound:,g}"

    def reached(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound


_HOP_P50, _HOP_P99 = (f"sent to read {cut}" for cut in ("p50", "p99"))
ASKED = (
    Asked("no-op, to Celery", "no-op", (CELERY.name, "no-op"), 2, "x", True),
    Asked("no-op, to Procrastinate", "no-op", (PROCRASTINATE.name, "no-op"), 7, "x", True),
    Asked(
        "one effect, to Celery's bare call", "one effect", (CELERY.name, "one effect"), 1, "x", True
    ),
    Asked("200/s, start p50, to a plain hop's", f"200/s, {START} p50", (HOP, _HOP_P50), 2, "x"),
    Asked("200/s, start p99, to a plain hop's", f"200/s, {START} p99", (HOP, _HOP_P99), 3, "x"),
    Asked("no-op, processor time with the load", f"no-op, {PROCESSOR}", None, 1_300, "us/job"),
)


def ratios(results: Sequence[Result]) -> Iterator[Result]:
    """What is asked for, as far as it was measured."""
    found = {(result.contender, result.metric): result.value for result in results}
    for contender in (FUSED.name, APART.name):
        for asked in ASKED:
            ours = found.get((contender, asked.ours))
            other = found.get(asked.other) if asked.other else 1.0
            if ours is not None and other:
                yield Result(contender, asked.name, round(ours / other, 2), asked.unit)
