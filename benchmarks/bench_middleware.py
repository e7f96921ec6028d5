"""What the default middleware adds to the code that a job runs: processor time a job.

    python benchmarks/bench_middleware.py [--turns 40] [--jobs 100] [--quick] [--json]

One process runs the stages and a worker in memory (`streams.testing`), so that only the middleware
differs: none at all, the default stack, the default stack with five of an application's own that
just pass everything on, and none again. In each turn each row runs some jobs of one effect on a new
pipeline, in a random order. Kafka's clients, the ingress and the processes between them are
missing, so a percentage is that of the remaining code alone, and larger than that of a whole job.

A figure is the median of all turns, a ratio that of each turn to `none` in the same turn. Every job
must succeed, else the exit code is 1. At most 3 % is asked of `default`.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import structlog
from bench_app import app
from harness import Result, arguments, report

from streams import App
from streams.middleware import EffectCall, GoOn, GoOnWithEffect, Middleware, Run, RunResult
from streams.testing import Bench

NONE, DEFAULT, MORE, AGAIN = "none", "default", "default and five", "none again"
TIME, ADDED, RATIO = "processor time a job", f"added to {NONE}", f"to {NONE}"
WARM = 5


class Passing(Middleware):
    """Passes everything on, as a class of its own does that looks at runs and effects."""

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        return await go_on()

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        return await go_on()


def app_of(name: str) -> App:
    """The jobs of all benchmarks under one row's middleware."""
    made = App("bench")
    made.jobs, made.tools = app.jobs, app.tools
    if name in (NONE, AGAIN):
        for member in made.middleware:
            assert isinstance(member, type)
            made.middleware.remove(member)
    if name == MORE:
        for number in range(5):
            made.middleware.add(type(f"Passing{number}", (Passing,), {})())
    return made


def turn(name: str, jobs: int) -> float:
    """Processor time a job in microseconds, of all threads."""
    with Bench(app_of(name), patience=600) as bench:
        for _ in range(WARM):
            run_one(bench)
        began = time.process_time()
        for _ in range(jobs):
            run_one(bench)
        return (time.process_time() - began) * 1e6 / jobs


def run_one(bench: Bench) -> None:
    job = bench.submit("one_effect").run()
    if job.status != "succeeded":
        sys.exit(f"a job is {job.status}: {job.error}")


def main() -> None:
    chosen = parse()
    rows = (NONE, DEFAULT, MORE, AGAIN)
    with Path(os.devnull).open("w") as nowhere:  # log lines are made, and not kept
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=structlog.PrintLoggerFactory(nowhere),
        )
        turns = [
            {name: turn(name, chosen.jobs) for name in random.sample(rows, len(rows))}
            for _ in range(chosen.turns)
        ]
    report("middleware", list(figures(rows, turns)), as_json=chosen.json)


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=100, help="of each row in a turn")
    parser.add_argument("--quick", action="store_true", help="two short turns")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.turns, chosen.jobs = 2, 50
    return chosen


def figures(rows: Sequence[str], turns: Sequence[dict[str, float]]) -> Iterator[Result]:
    for name in rows:
        yield Result(name, TIME, median(turn[name] for turn in turns), "us")
        if name != NONE:
            added = median(turn[name] - turn[NONE] for turn in turns)
            yield Result(name, ADDED, added, "us")
            ratio = median(turn[name] / turn[NONE] for turn in turns)
            yield Result(name, RATIO, 100 * ratio, "%")


if __name__ == "__main__":
    main()
