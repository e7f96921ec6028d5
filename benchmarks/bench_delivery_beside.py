"""Outgoing webhooks, ours beside those of a Celery task, each in turn with new servers.

    python benchmarks/bench_delivery_beside.py [--rounds 3] [--deliveries 8000]
        [--only NAME ...] [--works speed pace kills hanging] [--sweep NAME] [--json]

Both send the same number of bytes, signed alike, to the same fast receiver. `speed` is a backlog
for one endpoint, with the processor time of the sender and of its broker (Kafka, Redis). `pace` is
the time from an event to its POST at 100 a second. `kills` ends the sender three times with SIGKILL
within a backlog: the receiver's list tells what never came and what came again. Celery loses what
a worker has taken from Redis and not noted as unacknowledged yet. `hanging` is an endpoint that
gets 20 a second, alone and beside three messages for each of 1,000 hosts that never answer: a pool
is full of those until their timeout. Celery acknowledges late; its settings are chosen, not
swept yet: `--sweep` tries others.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial

from bench_delivery import at_pace, hang, latency, paced, receiver, send, stats
from contenders.environments import Unavailable
from delivery_systems import CELERY, RESTART_SECONDS, SWEPT, System, celery, tidegate
from harness import Result, arguments, report, variants
from outside import percentiles, until
from peers.rows import medians

Turns = Mapping[str, Callable[[], AbstractContextManager[System]]]
IN_TIME_SECONDS = 30.0
SYSTEMS = ["Tidegate", *CELERY]
QUIET_SECONDS = 80.0
"""Nothing comes after so long without a POST: more than Celery's visibility timeout."""


def main() -> None:
    chosen = parse()
    rows = [row for _ in range(chosen.rounds) for row in one_round(chosen)]
    report("delivery_beside", medians(rows), as_json=chosen.json)


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deliveries", type=int, default=8_000)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="NAME")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--sweep", choices=CELERY, metavar="NAME")
    return parser.parse_args()


def one_round(chosen: Namespace) -> Iterator[Result]:
    """Every system, one after the other."""
    celeries = {name: partial(celery, settings) for name, settings in CELERY.items()}
    systems: Turns = {"Tidegate": tidegate, **celeries}
    if chosen.sweep:
        tried = variants(CELERY[chosen.sweep], SWEPT)
        systems = {what: partial(celery, settings) for what, settings in tried}
    for name, started in systems.items():
        if not (chosen.sweep or name in chosen.only):
            continue
        try:
            with receiver() as url, started() as system:
                system.world.endpoint("fast", "crm", f"{url}/ok")
                send(system.world, url, system.process, "fast", "warm", 500)
                for work in chosen.works:
                    for row in WORKS[work](name, system, url, chosen.deliveries):
                        print(f"{row.contender}: {row.metric}: {row.value:,}", file=sys.stderr)
                        yield row
        except Unavailable as why:
            print(f"{name} is left out: {why}", file=sys.stderr)


def speed(name: str, system: System, url: str, count: int) -> Iterator[Result]:
    before = system.spent()
    rate = send(system.world, url, system.process, "fast", f"speed{time.monotonic_ns()}", count)
    each = (system.spent() - before) / count * 1e6
    yield Result(name, "deliveries", round(rate, 1), "1/s")
    yield Result(name, "processor time", round(each), "us/delivery")


def pace(name: str, system: System, url: str, count: int) -> Iterator[Result]:
    for row in latency(system.world, url, system.process):
        yield Result(name, f"{row.contender}, {row.metric}", row.value, row.unit)


def kills(name: str, system: System, url: str, count: int) -> Iterator[Result]:
    """What three kills within a backlog lose and double, and how long nothing moves."""
    ids = [f"evt_kill_{number}" for number in range(count)]
    system.world.events("fast", ids)
    restarts = []
    for quarter in (1, 2, 3):
        wanted = count * quarter // 4
        until(lambda: _came(url, ids) >= wanted, system.process, f"{wanted} deliveries", 300)  # noqa: B023
        system.kill()
        restarts.append(time.time() - RESTART_SECONDS / 2)
    found = _settled(url)
    first = {each: at for each, at in found.items() if each in set(ids)}
    again = [each for each in ids if f"again {each}" in found]
    missing = len(ids) - len(first)
    stuck = min(missing, system.held())
    yield Result(name, "kills, stuck", stuck, "deliveries")
    yield Result(name, "kills, lost", missing - stuck, "deliveries")
    yield Result(name, "kills, doubled", len(again), "deliveries")
    stood = [
        min((at for at in first.values() if at > since), default=0) - since for since in restarts
    ]
    yield Result(name, "kills, moves again", round(max(stood) + RESTART_SECONDS / 2, 1), "s")
    yield Result(name, "kills, last", round(max(first.values()) - restarts[-1], 1), "s")


def beside_hanging(name: str, system: System, url: str, count: int) -> Iterator[Result]:
    """A healthy endpoint alone, then beside a thousand that hang: how much comes in time."""
    system.world.endpoint("healthy", "crm", f"{url}/ok")
    alone = paced(system.world, url, system.process, "healthy", 20, 30)
    yield from percentiles(name, "20/s alone", alone)
    hang(system.world, url, system.process)
    ids = at_pace(system.world, "healthy", 20, 30)
    time.sleep(IN_TIME_SECONDS)
    found, sent = stats(url), system.world.sent
    took = [found[each] - sent[each] for each in ids if each in found]
    in_time = sum(each < IN_TIME_SECONDS for each in took) / len(ids)
    yield Result(name, "20/s beside 1,000 that hang, in time", round(in_time * 100, 1), "%")
    if len(took) == len(ids):
        yield from percentiles(name, "20/s beside 1,000 that hang", took)


def _came(url: str, ids: list[str]) -> int:
    time.sleep(0.05)
    return len(stats(url).keys() & set(ids))


def _settled(url: str) -> dict[str, float]:
    """What came, once nothing has come for long."""
    while time.time() - max((found := stats(url)).values()) < QUIET_SECONDS:
        time.sleep(1)
    return found


Work = Callable[[str, System, str, int], Iterator[Result]]
WORKS: Mapping[str, Work] = {
    "speed": speed,
    "pace": pace,
    "kills": kills,
    "hanging": beside_hanging,
}

if __name__ == "__main__":
    main()
