"""Spans that were exported, and those that were lost: counted, and told once."""

from __future__ import annotations

import structlog
from prometheus_client import Counter

log = structlog.get_logger(__name__)

EXPORTED = Counter("tidegate_traces_spans_exported", "Spans that the collector took")
LOST = Counter(
    "tidegate_traces_spans_lost",
    "Spans that no collector got, by reason: `queue` (its limit was reached), `export` (the "
    "collector did not take them), `step` (more traced records than one step records)",
    ["reason"],
)


def lost(number: int, reason: str) -> None:
    """Count spans that are not exported."""
    if number:
        LOST.labels(reason).inc(number)


class Told:
    """Logs once when spans begin to be lost, and once when the collector takes them again."""

    def __init__(self) -> None:
        self._losing: set[str] = set()

    def losing(self, reason: str) -> None:
        """Note that spans were lost."""
        if reason not in self._losing:
            self._losing.add(reason)
            log.warning("spans are lost: tidegate_traces_spans_lost counts them", reason=reason)

    def exported(self) -> None:
        """Note that the collector took spans."""
        if "export" in self._losing:
            self._losing.discard("export")
            log.info("the collector takes spans again")
