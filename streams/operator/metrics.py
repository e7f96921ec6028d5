"""The operator's gauges, computed from the read model when they are scraped.

The lag is reported in the metric family of all stages, `tidegate_stage_lag_...`. There is no tenant
label, because of its cardinality; a tenant's numbers are in its lists.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily

from streams.api.read_model.database import Database
from streams.api.read_model.follower import Follower
from streams.operator.counts import Counts, counts
from streams.serde import delivery_states, job_states
from streams.telemetry import ScrapedCollector
from streams.topology.limits import MaxQueued

_COUNTED_EVERY_SECONDS = 1.0
"""How often rows are counted: counting reads whole indexes, and a scrape needs no token."""


class ReadModelCollector(ScrapedCollector):
    """Omits row counts until the read model has caught up: partial counts cause false alarms."""

    def __init__(
        self,
        database: Database,
        follower: Follower,
        max_queued: tuple[MaxQueued, ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._follower = follower
        self._max_queued = max_queued
        self._clock = clock
        self._counted: tuple[float, Counts] | None = None

    def collect(self) -> Iterable[GaugeMetricFamily]:
        ready = self._follower.ready
        yield _gauge("tidegate_operator_ready", "1 once it has caught up", ready)
        if not ready:
            return
        try:
            found = self._counts()
        except sqlite3.Error:
            # The file is being rebuilt; a scrape must still show the process's other metrics.
            return
        yield from _of_counts(found)

    def _counts(self) -> Counts:
        if self._counted is None or self._clock() - self._counted[0] >= _COUNTED_EVERY_SECONDS:
            found = self._database.read(lambda db: counts(db, self._max_queued))
            self._counted = (self._clock(), found)
        return self._counted[1]


def _of_counts(found: Counts) -> Iterable[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("tidegate_jobs", "Jobs by state", labels=["status"])
    for status in job_states.NAMES:
        jobs.add_metric([status], found.jobs.get(status, 0))
    yield jobs
    yield _gauge(
        "tidegate_queue_depth",
        "Jobs that wait for a worker",
        found.jobs.get(job_states.PENDING, 0),
    )
    yield _gauge(
        "tidegate_oldest_ready_job_age_seconds",
        "How long the oldest of them has waited",
        _age_seconds(found.oldest_ready_at),
    )
    yield _gauge(
        "tidegate_dead_letters",
        "Dead letters that were neither replayed nor discarded, and are no manual work",
        found.dead_letters,
    )
    yield _gauge(
        "tidegate_unknown_effects",
        "Effects of unknown outcome whose jobs have ended",
        found.unknown_effects,
    )
    yield _gauge(
        "tidegate_quarantined_bodies",
        "Signed bodies that wait in the quarantine",
        found.quarantined,
    )
    yield _gauge(
        "tidegate_full_backlogs",
        "Caps of max_queued that are reached: new jobs that they count are refused",
        found.full_backlogs,
    )
    deliveries = GaugeMetricFamily(
        "tidegate_deliveries", "Outgoing deliveries by state", labels=["status"]
    )
    for each in delivery_states.NAMES:
        deliveries.add_metric([each], found.deliveries.get(each, 0))
    yield deliveries
    yield _gauge(
        "tidegate_oldest_due_delivery_age_seconds",
        "How long the oldest due delivery has waited",
        _age_seconds(found.oldest_due_at),
    )


def _age_seconds(at: int | None) -> float:
    return 0.0 if at is None else max(0.0, time.time() - at / 1000)


def _gauge(name: str, help_: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_, value=float(value))
