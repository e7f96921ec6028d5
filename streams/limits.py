"""Caps on how many jobs run at once, counted from the living leases of one partition.

A limit's `match` picks the values of its scope it speaks of, and each value has the cap to
itself: `{scope: tenant, match: "*", concurrency: 5}` gives every tenant five. A tenant lives in
one partition, so its cap holds overall; the caps of other scopes hold in each partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from streams.topology.model import Limit


class Concurrency:
    """Running jobs by limit and value."""

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self._limits = limits
        self._running: Counter[tuple[str, str]] = Counter()

    def allows(self, tenant_id: str, job_type: str) -> bool:
        """Whether one more job of this tenant and type may start."""
        return all(
            self._running[limit.name, value] < (limit.concurrency or 0)
            for limit, value in self._binding(tenant_id, job_type)
        )

    def started(self, tenant_id: str, job_type: str) -> None:
        self._running.update((lim.name, value) for lim, value in self._binding(tenant_id, job_type))

    def ended(self, tenant_id: str, job_type: str) -> None:
        self._running.subtract(
            (lim.name, value) for lim, value in self._binding(tenant_id, job_type)
        )

    def _binding(self, tenant_id: str, job_type: str) -> Iterator[tuple[Limit, str]]:
        values = {"global": "", "job_type": job_type, "tenant": tenant_id}
        for limit in self._limits:
            value = values[limit.scope]
            if limit.scope == "global" or fnmatchcase(value, limit.match):
                yield limit, value
