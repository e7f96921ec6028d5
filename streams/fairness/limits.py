"""Caps on how many jobs run at once, counted from the living leases of one partition.

A limit applies to the values of its scope that its `match` selects, and each value has a cap of
its own: `{scope: tenant, match: "*", concurrency: 5}` gives every tenant five. All jobs of a
tenant are in one partition, so its cap holds overall; the caps of other scopes hold per partition.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import translate
from math import inf

from streams.topology.model import Limit, LimitScope

Matches = Callable[[str], object]


class Concurrency:
    """Counts running jobs by limit and value, and forgets a value once its count is zero."""

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self._limits: dict[LimitScope, list[tuple[Limit, Matches]]] = defaultdict(list)
        for limit in limits:
            self._limits[limit.scope].append((limit, re.compile(translate(limit.match)).match))
        self._running: dict[tuple[str, str], int] = {}

    def type_free(self, job_type: str) -> bool:
        """Whether the caps of scope `job_type` and `global` let one more job of a type start."""
        return self.room("job_type", job_type) > 0 and self.room("global") > 0

    def started(self, tenant_id: str, job_type: str) -> None:
        for limit, value in self.binding(tenant_id, job_type):
            self._running[limit.name, value] = self._running.get((limit.name, value), 0) + 1

    def ended(self, tenant_id: str, job_type: str) -> None:
        for limit, value in self.binding(tenant_id, job_type):
            left = self._running[limit.name, value] = self._running[limit.name, value] - 1
            if not left:
                del self._running[limit.name, value]

    def binding(self, tenant_id: str, job_type: str) -> Iterator[tuple[Limit, str]]:
        """The limits that count a job, each with the value whose cap the job fills."""
        values: tuple[tuple[LimitScope, str], ...]
        values = ("global", ""), ("job_type", job_type), ("tenant", tenant_id)
        for scope, value in values:
            yield from ((limit, value) for limit in self._of(scope, value))

    def room(self, scope: LimitScope, value: str = "") -> float:
        """How many more jobs of a value the caps of this scope let start; infinite without one.

        It is 0, too, if more jobs run than a cap allows since it was lowered.
        """
        free = (
            (limit.concurrency or 0) - self._running.get((limit.name, value), 0)
            for limit in self._of(scope, value)
        )
        return max(0, min(free, default=inf))

    def _of(self, scope: LimitScope, value: str) -> Iterator[Limit]:
        for limit, matches in self._limits.get(scope, ()):
            if scope == "global" or matches(value):
                yield limit
