"""Which buckets count a job.

What they are found by decides where the queue asks whether there is room. A bucket of a pool or
type holds for many tenants, one of a tenant for many types, and those of a job for that job alone:
its keys, and what is counted per tenant and type. What counts its calls is among its keys.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple, Protocol

from streams.topology.limits import KEYED, Limit, Scope

_REMEMBERED = 4096
CIRCUIT = "@circuit"
"""Stands for a limit where the circuit of a tool counts its calls; no limit is named so."""
Matches = Callable[[str], object]


class Bucket(NamedTuple):
    """What one cap counts: a value of a limit's scope, of one tenant or (empty) of all.

    Its parts are never joined to one text, so that values of any characters stay apart.
    """

    limit: str
    tenant_id: str
    key: str


Keys = tuple[tuple[str, str], ...]
"""Values of limits, by their names (`keys.py`)."""


class Counted(Protocol):
    """What a job is counted by."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def keys(self) -> Keys: ...


class Candidate(NamedTuple):
    """A job as far as limits count it."""

    tenant_id: str
    type: str
    pool: str
    keys: Keys


class Buckets:
    """Finds buckets by the limits of a topology."""

    def __init__(self, limits: tuple[Limit, ...], *, circuits: bool = False) -> None:
        self.limits = {limit.name: limit for limit in limits}
        if circuits:
            self.limits[CIRCUIT] = Limit(CIRCUIT, "tool", shared=False)
        self._of: dict[tuple[Scope, bool], list[tuple[Limit, Matches]]] = defaultdict(list)
        self._of_calls: dict[Scope, list[tuple[Limit, Matches]]] = defaultdict(list)
        for limit in limits:
            matches = re.compile(translate(limit.match), re.DOTALL).fullmatch
            if limit.counts_calls:
                self._of_calls[limit.scope].append((limit, matches))
            else:
                self._of[limit.scope, limit.per is not None].append((limit, matches))
        remember = lru_cache(_REMEMBERED)
        self.of_pool = remember(self._of_pool)
        self.of_type = remember(self._of_type)
        self.of_tenant = remember(self._of_tenant)
        self._of_both = remember(self._of_tenant_and_type)
        self._keys_of_call = remember(self._found_for_call)
        of_jobs = any(scope in KEYED or per for scope, per in self._of)
        self.are_of_jobs = of_jobs or circuits or bool(self._of_calls)
        self.shared = frozenset(
            limit.name for limit in limits if limit.is_shared and limit.concurrency is not None
        )
        """The limits whose places are permits, which a partition has to ask for."""
        self.shared_rates = frozenset(
            limit.name for limit in limits if limit.is_shared and limit.rate is not None
        )
        """The limits whose starts a partition has to ask for."""
        self.shared_of_type = remember(self._shared_of_type)

    def of_job(self, job: Counted) -> tuple[Bucket, ...]:
        """The buckets that neither its tenant nor its pool and type have alone.

        Shared ones come last, so that none is asked for before there is room in the others.
        """
        if not self.are_of_jobs:
            return ()
        keyed = self._of_keys(job.tenant_id, job.keys)
        found = (*self._of_both(job.tenant_id, job.pool, job.type), *keyed)
        if len(found) < 2 or not (self.shared or self.shared_rates):
            return found
        return tuple(sorted(found, key=self._turn))

    def of_call(self, tenant_id: str, tool: str | None, model: str | None) -> tuple[Bucket, ...]:
        """The buckets that count a call: those of its tool, of its model, or of both."""
        if not self._of_calls:
            return ()
        return tuple(self._of_keys(tenant_id, self._keys_of_call(tool, model)))

    def all(self, job: Counted) -> tuple[Bucket, ...]:
        """All buckets that count a job."""
        coarse = (*self.of_type(job.pool, job.type), *self.of_tenant(job.tenant_id))
        return (*coarse, *self.of_job(job))

    def _of_pool(self, pool: str) -> tuple[Bucket, ...]:
        """The buckets of all jobs, and of a pool."""
        return (*self._found("global", ""), *self._found("pool", pool))

    def _of_type(self, pool: str, type_: str) -> tuple[Bucket, ...]:
        """The buckets of all jobs, of a pool, and of a type."""
        return (*self.of_pool(pool), *self._found("job_type", type_))

    def _shared_of_type(self, pool: str, type_: str) -> tuple[Bucket, ...]:
        """Those of `of_type` that are shared, in the one order in which they are asked for."""
        found = (b for b in self.of_type(pool, type_) if any(self._turn(b)))
        return tuple(sorted(found, key=lambda bucket: (self._turn(bucket), bucket)))

    def _turn(self, bucket: Bucket) -> tuple[bool, bool]:
        """When to ask for a bucket: a start of a rate is of no use later, so it comes last."""
        return bucket.limit in self.shared_rates, bucket.limit in self.shared

    def _of_tenant(self, tenant_id: str) -> tuple[Bucket, ...]:
        """The buckets of all jobs of a tenant."""
        own = [Bucket(name, tenant_id, "") for name, _, _ in self._found("global", "", per=True)]
        return (*self._found("tenant", tenant_id), *own)

    def _of_tenant_and_type(self, tenant_id: str, pool: str, type_: str) -> tuple[Bucket, ...]:
        """The buckets of a tenant's jobs of a pool or of a type."""
        found = self._found("pool", pool, per=True) + self._found("job_type", type_, per=True)
        return tuple(bucket._replace(tenant_id=tenant_id) for bucket in found)

    def _of_keys(self, tenant_id: str, keys: Keys) -> Iterator[Bucket]:
        for name, key in keys:
            limit = self.limits.get(name)
            if limit is not None:
                yield Bucket(name, tenant_id if limit.is_local else "", key)

    def _found_for_call(self, tool: str | None, model: str | None) -> Keys:
        values: tuple[tuple[Scope, str | None], ...] = ("tool", tool), ("model", model)
        return tuple(
            (limit.name, value)
            for scope, value in values
            if value is not None
            for limit, matches in self._of_calls[scope]
            if matches(value)
        )

    def _found(self, scope: Scope, value: str, *, per: bool = False) -> list[Bucket]:
        return [
            Bucket(limit.name, value if scope == "tenant" else "", value)
            for limit, matches in self._of.get((scope, per), ())
            if scope == "global" or matches(value)
        ]
