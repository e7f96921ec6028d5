"""A tenant's rate over several processes: simulated on a virtual clock, the log between them late.

Each process hears the reports of all in the log's order, but up to 60 ms after they were written.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from ingress.rates.shares import SILENT_SECONDS, TICK_SECONDS, Rates
from streams.serde.codec import RATE_REPORT
from streams.serde.records import RateReport
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.tenants.settings import Rate


class Process:
    """One ingress of a simulation; it reports once it has listened for two ticks."""

    def __init__(self, cluster: Cluster, index: int) -> None:
        self.rates = Rates({"acme": cluster.rate}, lambda: cluster.now)
        self.index = index
        self.joins = cluster.now + 2 * TICK_SECONDS
        self.heard_until = 0.0
        self.alive = True
        self.reads_from = len(cluster.log)


class Cluster:
    """Processes, their log, and what they let pass; `demand` is in deliveries a second."""

    def __init__(self, rate: Rate, processes: int = 2, seed: int = 7) -> None:
        self.rate = rate
        self.now = 1000.0
        self.log: list[RateReport] = []
        self.passed: list[float] = []
        self.refused: list[float] = []
        self.demand: list[float] = [0.0] * processes
        self.random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.processes = [self.start(index) for index in range(processes)]

    def start(self, index: int) -> Process:
        process = Process(self, index)
        self._at(self.now + self.random.uniform(0, TICK_SECONDS), lambda: self._tick(process))
        self._arrive(process)
        return process

    def kill(self, index: int) -> None:
        self.processes[index].alive = False

    def restart(self, index: int) -> None:
        self.kill(index)
        self.processes[index] = self.start(index)

    def run(self, seconds: float) -> float:
        """Go on for so long; the time now."""
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until
        return until

    def count(self, since: float, until: float, of: Sequence[float] | None = None) -> int:
        found = self.passed if of is None else of
        return bisect_left(found, until) - bisect_left(found, since)

    def most_in_a_window(self) -> int:
        """The most that passed in any span of the rate's seconds."""
        return max((self.count(at, at + self.rate.seconds) for at in self.passed), default=0)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, event))

    def _tick(self, process: Process) -> None:
        if not process.alive:
            return
        if self.now >= process.joins:
            self.log.append(process.rates.report())
            for each in self.processes:
                self._deliver(each)
        self._at(self.now + TICK_SECONDS, lambda: self._tick(process))

    def _deliver(self, process: Process) -> None:
        """The newest report, after a while, and never before an older one."""
        offset = len(self.log) - 1
        process.heard_until = max(process.heard_until, self.now + self.random.uniform(0, 0.06))

        def hear() -> None:
            if process.alive and offset >= process.reads_from:
                process.rates.hear(self.log[offset])

        self._at(process.heard_until, hear)

    def _arrive(self, process: Process) -> None:
        if not process.alive:
            return
        demand = self.demand[process.index]
        if demand:
            wait = process.rates.wait("acme")
            (self.passed if wait == 0 else self.refused).append(self.now)
        gap = self.random.expovariate(demand) if demand else 0.05
        self._at(self.now + gap, lambda: self._arrive(process))


def holds(cluster: Cluster) -> bool:
    """In no window more than the rate and a tenth, or one delivery a process where that is more."""
    spare = max(0.1 * cluster.rate.count, len(cluster.processes))
    return cluster.most_in_a_window() <= cluster.rate.count + spare


def used(cluster: Cluster, seconds: float) -> float:
    """What passed from now on, in parts of what the rate allows."""
    since = cluster.now
    until = cluster.run(seconds)
    return cluster.count(since, until) / (cluster.rate.per_second * seconds)


RATES = [Rate(count=100, seconds=1), Rate(count=600, seconds=60), Rate(count=1_000, seconds=10)]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("parts", [(1.5, 1.5), (2.7, 0.3), (3.0, 0.0), (2.0, 0.7, 0.3)], ids=str)
def test_overload_however_uneven_passes_the_rate_and_no_more(
    rate: Rate, parts: tuple[float, ...]
) -> None:
    cluster = Cluster(rate, len(parts))
    cluster.run(2)
    cluster.demand = [part * rate.per_second for part in parts]
    cluster.run(2)
    assert 0.9 <= used(cluster, 60) <= 1.1
    assert holds(cluster)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_below_the_rate_hardly_anything_is_refused_however_uneven(rate: Rate) -> None:
    cluster = Cluster(rate)
    cluster.demand = [0.7 * rate.per_second, 0.1 * rate.per_second]
    cluster.run(10)
    since = cluster.now
    until = cluster.run(120)
    refused = cluster.count(since, until, cluster.refused)
    assert refused <= 0.05 * cluster.count(since, until)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_demand_that_moves_takes_its_share_along(rate: Rate) -> None:
    cluster = Cluster(rate)
    for _ in range(3):
        for demand in ([3.0, 0.0], [0.0, 3.0], [1.5, 1.5]):
            cluster.demand = [part * rate.per_second for part in demand]
            cluster.run(2)
            assert 0.9 <= used(cluster, 10) <= 1.1
    assert holds(cluster)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_burst_at_every_process_at_once_passes_no_more_than_the_rate(rate: Rate) -> None:
    cluster = Cluster(rate, 3)
    for _ in range(5):
        cluster.demand = [0.0] * 3
        cluster.run(rate.seconds)
        cluster.demand = [20 * rate.per_second] * 3
        cluster.run(1)
    assert holds(cluster)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_restart_brings_no_second_burst_and_takes_its_share_up_again(rate: Rate) -> None:
    cluster = Cluster(rate)
    cluster.demand = [1.5 * rate.per_second] * 2
    cluster.run(10)
    for _ in range(5):
        cluster.restart(0)
        cluster.run(SILENT_SECONDS + 1)
    assert 0.9 <= used(cluster, 20) <= 1.1
    assert holds(cluster)


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_silent_process_is_forgotten_and_the_others_take_its_share(rate: Rate) -> None:
    cluster = Cluster(rate, 3)
    cluster.demand = [1.5 * rate.per_second] * 3
    cluster.run(10)
    cluster.kill(0)
    cluster.demand[0] = 0
    cluster.run(SILENT_SECONDS + 1)
    assert 0.9 <= used(cluster, 20) <= 1.1
    assert holds(cluster)


def test_a_slow_rate_passes_at_its_own_pace() -> None:
    cluster = Cluster(Rate(count=6, seconds=60))
    cluster.demand = [0.5, 0.0]
    cluster.run(120)
    assert 0.9 <= used(cluster, 3_600) <= 1.1
    assert holds(cluster)


def alone(rate: Rate) -> tuple[Rates, list[float]]:
    """A process that has joined, and its clock."""
    clock = [50.0]
    rates = Rates({"acme": rate}, lambda: clock[0])
    rates.hear(rates.report())
    return rates, clock


@pytest.mark.parametrize(("count", "seconds"), [(1, 1), (7, 3), (600, 60), (5, 3600)])
def test_who_waits_as_long_as_told_passes_and_not_before(count: int, seconds: float) -> None:
    rates, clock = alone(Rate(count=count, seconds=seconds))

    def go_on(until: float) -> None:
        while clock[0] < until:
            clock[0] = min(until, clock[0] + 1)
            rates.hear(RateReport(rates.process, {}, leaving=False))

    for _ in range(20):
        told = rates.wait("acme")
        assert told
        since = clock[0]
        go_on(since + told * 0.99)
        assert rates.wait("acme")
        go_on(since + told + 1e-6)
        assert rates.wait("acme") == 0


def test_a_tenant_that_is_new_to_a_process_finds_what_gathered_since_it_joined() -> None:
    rates, clock = alone(Rate(count=100, seconds=10))
    clock[0] += 1.5
    assert [rates.wait("acme") == 0 for _ in range(10)] == [True] * 8 + [False] * 2


def test_a_process_that_the_log_does_not_tell_of_has_no_share() -> None:
    clock = [50.0]
    rates = Rates({"acme": Rate(count=100, seconds=1)}, lambda: clock[0])
    assert (rates.known, rates.wait("acme")) == (False, None)
    rates.hear(RateReport("ing_other", {"acme": 5.0}, leaving=False))
    assert rates.wait("acme") is None
    rates.hear(rates.report())
    clock[0] += 1
    assert rates.wait("acme") == 0
    clock[0] += SILENT_SECONDS
    assert (rates.known, rates.wait("acme")) == (False, None)


def test_a_process_that_left_has_no_share_until_it_is_heard_of_anew() -> None:
    rates, _ = alone(Rate(count=100, seconds=1))
    rates.leave()
    assert (rates.known, rates.wait("acme")) == (False, None)
    rates.hear(rates.report())
    assert rates.known


def test_a_process_that_leaves_is_forgotten_at_once() -> None:
    rates, clock = alone(Rate(count=100, seconds=1))
    rates.hear(RateReport("ing_other", {"acme": 1e9}, leaving=False))
    clock[0] += 1
    assert rates.wait("acme")
    rates.hear(RateReport("ing_other", {}, leaving=True))
    assert rates.wait("acme")
    clock[0] += 0.02
    assert rates.wait("acme") == 0


def test_a_share_that_grows_holds_from_then_on_and_not_backwards() -> None:
    rates, clock = alone(Rate(count=1_000, seconds=10))
    rates.hear(RateReport("ing_other", {"acme": 1e9}, leaving=False))
    assert rates.wait("acme")
    clock[0] += 0.5
    rates.hear(RateReport("ing_other", {}, leaving=True))
    assert rates.wait("acme")
    clock[0] += 0.02
    assert rates.wait("acme") == 0


def test_a_tenant_without_a_rate_is_not_looked_at() -> None:
    limits: dict[str, Rate] = {}
    rates = Rates(limits, lambda: 50.0)
    assert (rates.wait("acme"), rates.needed, rates.report().demand) == (0, False, {})
    limits["acme"] = Rate(count=1, seconds=1)
    rates.wait("acme")
    assert (rates.needed, list(rates.report().demand)) == (True, ["acme"])
    del limits["acme"]
    assert (rates.wait("acme"), rates.report().demand) == (0, {})


def go_on(rates: Rates, clock: list[float], seconds: float) -> None:
    """Let time pass, with the reports that come in it."""
    for _ in range(round(seconds / TICK_SECONDS)):
        clock[0] += TICK_SECONDS
        rates.hear(rates.report())


def test_a_tenant_that_sends_nothing_more_is_forgotten_and_finds_a_full_bucket() -> None:
    rates, clock = alone(Rate(count=100, seconds=10))
    go_on(rates, clock, 1)
    passed = [rates.wait("acme") == 0 for _ in range(10)]
    go_on(rates, clock, 1)
    assert list(rates._buckets) == ["acme"]
    go_on(rates, clock, 10)
    assert not rates._buckets
    assert passed == [True] * 8 + [False] * 2
    assert [rates.wait("acme") == 0 for _ in range(10)] == passed


@pytest.mark.parametrize(
    "rate", [*RATES, Rate(count=5, seconds=20), Rate(count=6_000, seconds=600)], ids=str
)
def test_what_is_forgotten_changes_no_answer(rate: Rate) -> None:
    class Mindful(Rates):
        def _forget(self, *_: object) -> None: ...

    chance, clocks = random.Random(7), ([50.0], [50.0])
    forgets, minds = (
        kind({"acme": rate}, partial(clock.__getitem__, 0))
        for kind, clock in zip((Rates, Mindful), clocks, strict=True)
    )
    forgot = 0
    for _ in range(100):
        pause = chance.choice([TICK_SECONDS, 1, 3, 20, 150])
        for each, clock in zip((forgets, minds), clocks, strict=True):
            go_on(each, clock, pause)
        forgot += len(forgets._buckets) < len(minds._buckets)
        for _ in range(chance.choice([0, 0, 1, 5, 40, 600])):
            assert forgets.wait("acme") == minds.wait("acme")
    assert forgot


def test_a_report_fits_a_message_and_names_the_largest_demands() -> None:
    names = [f"{number:064d}" for number in range(12_000)]
    rates = Rates(dict.fromkeys(names, Rate(count=1, seconds=1)), lambda: 50.0)
    for name in [*names, *names[2_000:]]:
        rates.wait(name)
    report = rates.report()
    assert set(report.demand) == set(names[2_000:])
    assert len(RATE_REPORT.encode(report)) < 0.8 * PRODUCER_BATCH_BYTES


@pytest.mark.parametrize("demand", [math.nan, math.inf, -math.inf, -1.0, 1e308])
def test_a_report_of_an_impossible_demand_neither_lifts_nor_ends_a_rate(demand: float) -> None:
    """Of infinity a share was nothing, and the next delivery was divided by it."""
    now = 1000.0
    rates = Rates({"acme": Rate(count=10, seconds=10)}, lambda: now)
    rates.hear(RateReport(rates.process, {}, leaving=False))
    for other in "ab":
        rates.hear(RateReport(other, {"acme": demand}, leaving=False))
    waits = [rates.wait("acme") for _ in range(50)]
    assert all(wait is not None and wait > 0 for wait in waits), waits
