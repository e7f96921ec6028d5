"""Computes each ingress process's share of a tenant's rate from the demand reports of all of them.

Every process reports, four times a second, how many deliveries come to it, on one partition of
`ingress.rates`. Its share of a tenant's rate equals its share of the tenant's total demand *as
that log tells it*; its own demand, too, is the one that it reads there. All processes read the
same reports in the same order, so their shares add up to the whole rate even while processes come,
go or change their demand. A process that has not read a report of its own for `SILENT_SECONDS` has
no share, since the others have forgotten it by then.

Locally the share fills a bucket of tokens (ITU-T I.371's leaky bucket, turned around). The bucket
holds `BURST` of the count and starts empty, so that a restart brings no second burst.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from streams.serde import ids
from streams.serde.records import RateReport
from streams.tenants.settings import Rate

TICK_SECONDS = 0.25
"""The time between two reports of a process."""
SILENT_SECONDS = 2.0
"""A process is forgotten after eight missing reports."""
BURST = 0.08
"""The part of a rate's count that may pass at once. Shifting shares can add to it, and at most a
tenth of the count may pass beyond the rate."""
_LEAST_ROOM = 1.9
"""Every bucket holds at least this many tokens. That is less than two, but it loses no time while a
delivery waits for the first token."""
_LEAST_DEMAND = 0.01
"""The part of a rate that counts as every process's least demand, so that a process without demand
has a small share to begin with."""
_MEMORY_DELIVERIES = 5
"""Demand is averaged over the time this many deliveries take at the rate, at least a second."""
_MOST_DEMAND = 1e9
"""In deliveries a second; a report that names more was not made by an ingress."""
_MOST_REPORTED = 10_000
"""The most demands in one report. If all tenants have the longest ids, of 64 bytes, the record is
three quarters of what a producer sends in one batch."""


@dataclass(slots=True)
class _Bucket:
    """One tenant's tokens in this process; `arrivals` counts deliveries since the last report.

    A bucket counts as empty at the time its process joined, even if it is first used later.
    """

    level: float = 0.0
    at: float = 0.0
    share: float = 0.0
    arrivals: int = 0
    demand: float = 0.0


class Rates:
    """Admits deliveries of the tenants in `rates`; one thread admits, one reports and hears."""

    def __init__(
        self, rates: Mapping[str, Rate], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.process = ids.new_id("ing")
        self._rates = rates
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._counting = threading.Lock()  # so that no counted delivery is forgotten
        self._heard: dict[str, tuple[float, Mapping[str, float]]] = {}
        self._joined = 0.0
        self._reported = clock()

    @property
    def needed(self) -> bool:
        """Whether any tenant has a rate."""
        return bool(self._rates)

    @property
    def known(self) -> bool:
        """Whether this process has a share: it has lately read a report of its own."""
        heard = self._heard.get(self.process)
        return heard is not None and self._clock() - heard[0] < SILENT_SECONDS

    def wait(self, tenant_id: str) -> float | None:
        """Seconds until a delivery of the tenant may pass; 0.0 lets this one pass and counts it.

        Returns None while this process does not know its share.
        """
        rate = self._rates.get(tenant_id)
        if rate is None:
            return 0.0
        now = self._clock()
        with self._counting:
            bucket = self._buckets.setdefault(tenant_id, _Bucket())
            bucket.arrivals += 1
        share = self._share(tenant_id, rate, now)
        if share is None:
            return None
        bucket.at = max(bucket.at, self._joined)
        _refill(bucket, rate, share, now)
        if bucket.level < 1:
            return (1 - bucket.level) / (rate.per_second * share)
        bucket.level -= 1
        return 0.0

    def report(self) -> RateReport:
        """The next report, with the deliveries that came since the last one."""
        now = self._clock()
        passed, self._reported = max(now - self._reported, 1e-3), now
        demand = {}
        for tenant_id, bucket in list(self._buckets.items()):
            rate = self._rates.get(tenant_id)
            if rate is None:
                del self._buckets[tenant_id]
                continue
            with self._counting:
                arrivals, bucket.arrivals = bucket.arrivals, 0
            memory = max(1.0, _MEMORY_DELIVERIES / rate.per_second)
            bucket.demand += (arrivals / passed - bucket.demand) * -math.expm1(-passed / memory)
            if bucket.demand > _LEAST_DEMAND * rate.per_second:
                demand[tenant_id] = bucket.demand
            elif not arrivals and self._as_new(bucket, rate, now):
                self._forget(tenant_id, bucket)
        return RateReport(self.process, _largest(demand), leaving=False)

    def _as_new(self, bucket: _Bucket, rate: Rate, now: float) -> bool:
        """Whether a bucket made anew would hold as much at the same share.

        So it is if this one was left alone for so long that it is full at any share: the new one
        fills from the time its process joined, which is no later.
        """
        alone = now - max(bucket.at, self._joined)
        gathered = alone * rate.per_second * bucket.share
        return not bucket.share or gathered >= max(_LEAST_ROOM, BURST * rate.count)

    def _forget(self, tenant_id: str, bucket: _Bucket) -> None:
        with self._counting:
            if not bucket.arrivals:
                del self._buckets[tenant_id]

    def leave(self) -> RateReport:
        """The last report; this process has no share until it reads a new report of its own."""
        self._heard = {}
        return RateReport(self.process, {}, leaving=True)

    def hear(self, report: RateReport) -> None:
        """Take in the next report of the log, which may be this process's own."""
        now = self._clock()
        if report.process == self.process and not self.known:
            self._joined = now
        if report.leaving:
            self._heard.pop(report.process, None)
        else:
            self._heard[report.process] = (now, _believable(report.demand))
        for process in [p for p, (at, _) in self._heard.items() if now - at >= SILENT_SECONDS]:
            del self._heard[process]

    def _share(self, tenant_id: str, rate: Rate, now: float) -> float | None:
        """This process's share by demand; the rate left over by all demand is split equally."""
        least = _LEAST_DEMAND * rate.per_second
        demands = {
            process: max(demand.get(tenant_id, 0.0), least)
            for process, (at, demand) in list(self._heard.items())
            if now - at < SILENT_SECONDS
        }
        own, whole = demands.get(self.process), sum(demands.values())
        if own is None:
            return None
        spare = max(0.0, rate.per_second - whole)
        return (own + spare / len(demands)) / (whole + spare)


def _believable(demand: Mapping[str, float]) -> Mapping[str, float]:
    """A report's demands without impossible ones, by which no share could be computed."""
    if all(0 <= each <= _MOST_DEMAND for each in demand.values()):
        return demand
    return {tenant: each for tenant, each in demand.items() if 0 <= each <= _MOST_DEMAND}


def _largest(demand: dict[str, float]) -> dict[str, float]:
    if len(demand) <= _MOST_REPORTED:
        return demand
    return dict(heapq.nlargest(_MOST_REPORTED, demand.items(), key=itemgetter(1)))


def _refill(bucket: _Bucket, rate: Rate, share: float, now: float) -> None:
    """Add the tokens of the time since `bucket.at`, at the share that held during that time."""
    filled = bucket.level + (now - bucket.at) * rate.per_second * (bucket.share or share)
    bucket.level = min(filled, max(_LEAST_ROOM, BURST * rate.count * share))
    bucket.at, bucket.share = now, share
