"""Each ingress's share of a tenant's rate, from what all of them tell of their demand.

Every process reports, four times a second, how many deliveries come to it, on one partition of
`ingress.rates`. It takes of a tenant's rate the share that it has of the demand *as that log
tells it*, its own part included: all go by the same order of the same reports, so their shares
make up the whole, whoever comes, goes or changes. Who has not read its own report for
`SILENT_SECONDS` has no share: the others have forgotten it by then.

Locally the share is a bucket of tokens (ITU-T I.371's leaky bucket, turned around) that holds
`BURST` of the count and is empty when the process starts: a restart brings no second burst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streams.serde import ids
from streams.serde.records import RateReport
from streams.tenants.settings import Rate

TICK_SECONDS = 0.25
"""Between two reports of a process."""
SILENT_SECONDS = 2.0
"""Eight reports that did not come: the process is forgotten."""
BURST = 0.08
"""Of a rate's count, at once: shares that shift may add to it, and a tenth is what may be over."""
_LEAST_ROOM = 1.9
"""Tokens that any bucket holds: not yet two, but no time is lost while the first is waited for."""
_LEAST_DEMAND = 0.01
"""Of a rate, ascribed to every process: who asks for nothing yet has a little to begin with."""
_MEMORY_DELIVERIES = 5
"""Demand is averaged over the time of so many deliveries at the rate, a second at least."""


@dataclass(slots=True)
class _Bucket:
    """One tenant's tokens here, and what came: `arrivals` since the last report.

    It counts as empty at the time when its process joined, whenever it is first looked at.
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
        self._heard: dict[str, tuple[float, Mapping[str, float]]] = {}
        self._joined = 0.0
        self._reported = clock()

    @property
    def needed(self) -> bool:
        """Whether any tenant has a rate."""
        return bool(self._rates)

    @property
    def known(self) -> bool:
        """Whether this process has a share: the log has told of it, and lately."""
        heard = self._heard.get(self.process)
        return heard is not None and self._clock() - heard[0] < SILENT_SECONDS

    def wait(self, tenant_id: str) -> float | None:
        """Seconds until a delivery of the tenant may pass; 0.0 lets this one, and counts it.

        None where this process does not know its share.
        """
        rate = self._rates.get(tenant_id)
        if rate is None:
            return 0.0
        now = self._clock()
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
        """What to tell now of what came since the last report."""
        now = self._clock()
        passed, self._reported = max(now - self._reported, 1e-3), now
        demand = {}
        for tenant_id, bucket in list(self._buckets.items()):
            rate = self._rates.get(tenant_id)
            if rate is None:
                del self._buckets[tenant_id]
                continue
            arrivals, bucket.arrivals = bucket.arrivals, 0
            memory = max(1.0, _MEMORY_DELIVERIES / rate.per_second)
            bucket.demand += (arrivals / passed - bucket.demand) * -math.expm1(-passed / memory)
            if bucket.demand > _LEAST_DEMAND * rate.per_second:
                demand[tenant_id] = bucket.demand
        return RateReport(self.process, demand, leaving=False)

    def leave(self) -> RateReport:
        """What to tell last; until it is heard of anew, this process has no share."""
        self._heard = {}
        return RateReport(self.process, {}, leaving=True)

    def hear(self, report: RateReport) -> None:
        """Take in the next report of the log, this process's own too."""
        now = self._clock()
        if report.process == self.process and not self.known:
            self._joined = now
        if report.leaving:
            self._heard.pop(report.process, None)
        else:
            self._heard[report.process] = (now, report.demand)
        for process in [p for p, (at, _) in self._heard.items() if now - at >= SILENT_SECONDS]:
            del self._heard[process]

    def _share(self, tenant_id: str, rate: Rate, now: float) -> float | None:
        """By demand; what the whole demand leaves of the rate is shared out equally."""
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


def _refill(bucket: _Bucket, rate: Rate, share: float, now: float) -> None:
    """What came in until now came at the share that held until now."""
    filled = bucket.level + (now - bucket.at) * rate.per_second * (bucket.share or share)
    bucket.level = min(filled, max(_LEAST_ROOM, BURST * rate.count * share))
    bucket.at, bucket.share = now, share
