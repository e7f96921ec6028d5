"""Gauges of the stage, read from its tables at each scrape; none has a tenant label.

All but the position and the age are of the present hour of UTC: the rows of all tenants' hours are
few enough to be read for a scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from streams.analytics.figures import Figures
from streams.analytics.partitions import TOPICS, Assignment, Partitions
from streams.analytics.query import Query, effects, oldest_waiting, rows, total
from streams.analytics.windows import STEPS
from streams.process.wall_clock import wall_ms
from streams.telemetry import ScrapedCollector

_SHARES = (0.5, 0.95, 0.99)


class TablesCollector(ScrapedCollector):
    """`partitions` answers with what this process counts; None before it counts anything."""

    def __init__(self, partitions: Callable[[], Partitions | None]) -> None:
        self._partitions = partitions

    def collect(self) -> Iterable[Metric]:
        """The gauges; none before the first assignment."""
        partitions = self._partitions()
        if partitions is None or not partitions.assigned:
            return
        found = partitions.assignment
        now, hour = wall_ms(), STEPS["hour"]
        present = Query("hour", hour.start(now), hour.start(now) + hour.ms)
        yield _positions(found)
        yield from _figures(total(rows(found, present)))
        yield _effects(effects(found, present))
        waits = oldest_waiting(found, present)
        yield _gauge(
            "oldest_waiting_seconds",
            "Age of the job that waits longest for a worker",
            0 if waits is None else max(0, now - waits) / 1000,
        )


def _positions(found: Assignment) -> Metric:
    family = GaugeMetricFamily(
        "tidegate_analytics_position", "Next offset to count", labels=["topic", "partition"]
    )
    for topic in TOPICS:
        for number, counted in found.of(topic):
            family.add_metric([topic, str(number)], counted.position)
    return family


def _figures(present: Figures) -> Iterator[Metric]:
    yield _gauge("events_this_hour", "Events of this hour", present.events)
    yield _gauge("redeliveries_this_hour", "Redeliveries dropped in it", present.redeliveries)
    yield _gauge("subjects_this_hour", "Different subjects in it", present.subjects.estimate)
    ends = GaugeMetricFamily(
        "tidegate_analytics_jobs_this_hour", "Ended jobs of its events", labels=["end"]
    )
    for end, number in sorted(present.outcomes.items()):
        ends.add_metric([end], number)
    yield ends
    took = GaugeMetricFamily(
        "tidegate_analytics_event_to_end_seconds",
        "From its events to the ends of their jobs",
        labels=["quantile"],
    )
    for share in _SHARES:
        if (at := present.took.quantile(share)) is not None:
            took.add_metric([str(share)], at / 1000)
    yield took


def _effects(found: dict[str, dict[str, int]]) -> Metric:
    family = GaugeMetricFamily(
        "tidegate_analytics_effects_this_hour",
        "Effects first claimed in this hour",
        labels=["tool", "outcome"],
    )
    for tool, outcomes in found.items():
        for outcome, number in outcomes.items():
            family.add_metric([tool, outcome], number)
    return family


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tidegate_analytics_{name}", help_, value=value)
