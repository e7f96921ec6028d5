"""Jobs a second, start latency and processor time a job, beside Celery and Procrastinate.

    python benchmarks/bench_jobs.py [--rounds 3] [--jobs 6000] [--seconds 10] [--quick] [--json]
        [--only CONTENDER ...] [--sweep CONTENDER]

Each round runs every contender, one after the other: ours with the stages fused and apart, from
signed webhooks at the ingress, Celery on Redis and Procrastinate on PostgreSQL, from their own
clients. After a warm-up and some seconds of idling come no-op jobs and jobs of one effect as fast
as they are taken, then no-op jobs at fixed rates whatever the system does (an open loop). A figure
is the median of its rounds. Start latency counts from the answer to the sender to the first line
of the handler; processor time is that of all processes of a contender, the sender included.

Every job must end once, in its first attempt, with a handler that started once: else the row is
void, and the exit code is 1. What is asked for stands with the figures, and missing it changes no
exit code. `one plain hop` is the least exactly-once hop over the warm broker of each of our
layouts, before the loads come. `--sweep` tries a contender's settings one by one, with no-op jobs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from contenders.environments import Unavailable
from harness import Result, arguments, report
from jobs_contenders import ALL, Contender
from jobs_queues import Settings
from jobs_run import Load, Stalled, System, difference
from jobs_standings import FAULTS, IDLE, OF_IT, RATES, figures, medians, ratios, title
from jobs_tables import show
from jobs_tidegate import Tidegate
from outside import plain_hop

HOPS = 300
Entry = tuple[str, Contender, Settings]


def main() -> None:
    chosen = parse()
    rounds = [list(in_turn(chosen)) for _ in range(chosen.rounds)]
    results = medians(rounds)
    if not results:
        sys.exit("nothing was measured")
    rows = [*results, *ratios(results)]
    if chosen.json:
        report("jobs", rows, as_json=True)
    else:
        show(rows)
    sys.exit(1 if any(row.value for row in results if row.metric == FAULTS) else 0)


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=6_000, help="no-op jobs; half with an effect")
    parser.add_argument("--seconds", type=float, default=10, help="at each fixed rate, and idle")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--sweep", choices=[c.name for c in ALL.values() if c.swept])
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rounds, chosen.jobs, chosen.seconds = 1, 800, 3.0
    return chosen


def entries(chosen: Namespace) -> list[Entry]:
    """The runs of a round: a name for each, who, and with which settings."""
    if chosen.sweep:
        contender = ALL[chosen.sweep]
        return [(what, contender, settings) for what, settings in contender.variants()]
    return [(name, ALL[name], ALL[name].settings) for name in ALL if name in chosen.only]


def loads(chosen: Namespace) -> list[Load]:
    """What every contender is given once it is warm."""
    fast = [Load("noop", chosen.jobs), Load("effect", chosen.jobs // 2)]
    if chosen.sweep:
        return fast[:1]
    return [*fast, *(Load("noop", int(rate * chosen.seconds), rate) for rate in RATES)]


def in_turn(chosen: Namespace) -> Iterator[Result]:
    """One round: each entry once, with servers and data of its own."""
    for name, contender, settings in entries(chosen):
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
            try:
                with contender.start(Path(folder), settings) as system:
                    yield from measured(name, system, chosen)
            except Unavailable as why:
                print(f"{name} is left out: {why}", file=sys.stderr)


def measured(name: str, system: System, chosen: Namespace) -> Iterator[Result]:
    """Each load in turn; one that stalls is the last."""
    wrong = 0
    try:
        wrong += system.run(Load("noop", max(500, chosen.jobs // 3))).wrong
        if not chosen.sweep:
            yield from at_rest(name, system, chosen.seconds)
        for load in loads(chosen):
            run = system.run(load)
            wrong += run.wrong
            found = [] if run.wrong else figures(name, load, run)
            said = f"{run.wrong} WRONG" if run.wrong else told(found[:2])
            print(f"{name}, {title(load)}: {said}", file=sys.stderr)
            yield from found
    except Stalled as why:
        print(f"{name} stalled: {why}", file=sys.stderr)
        wrong += 1
    yield Result(name, FAULTS, wrong, "jobs")


def at_rest(name: str, system: System, seconds: float) -> Iterator[Result]:
    """The yardstick over our broker, then what a contender spends on waiting for jobs."""
    if isinstance(system, Tidegate):
        yield from plain_hop(system.bootstrap, HOPS)
    before, since = system.spent(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - since
    spent = difference(before, system.spent())
    yield Result(name, IDLE, round(sum(spent.values()) / took * 1000, 1), "ms/s")
    for part, worked in spent.items():
        yield Result(name, f"{IDLE}, {OF_IT}{part}", round(worked / took * 1000, 1), "ms/s")


def told(results: Sequence[Result]) -> str:
    """Figures in one line."""
    return ", ".join(f"{result.value:,.1f} {result.unit}" for result in results)


if __name__ == "__main__":
    main()
