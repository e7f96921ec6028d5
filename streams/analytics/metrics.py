"""Gauges of the stage, read from its tables at each scrape; none has a tenant label."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.analytics.partitions import TOPICS, Partitions


class TablesCollector(Collector):
    """`partitions` answers with what this process counts; None before it counts anything."""

    def __init__(self, partitions: Callable[[], Partitions | None]) -> None:
        self._partitions = partitions

    def collect(self) -> Iterable[Metric]:
        position = GaugeMetricFamily(
            "tidegate_analytics_position", "Next offset to count", labels=["topic", "partition"]
        )
        found = self._partitions()
        for topic in TOPICS if found else ():
            for number, counted in found.of(topic):
                position.add_metric([topic, str(number)], counted.position)
        yield position
