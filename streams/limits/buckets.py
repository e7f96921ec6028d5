"""Which buckets count a job.

What they are found by decides where the queue asks whether there is room. A bucket of a pool or
type holds for many tenants, one of a tenant for many types, and those of a job for that job alone:
its keys, and what is counted per tenant and type. What counts its calls is among its keys.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple, Protocol

from streams.topology.limits import KEYED, Limit, Scope

_REMEMBERED = 4096
MARK = "/"
"""What the names of marks begin with (`paused`); a limit's name cannot."""
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


Found = dict[tuple[Scope, bool], list[tuple[Limit, Matches]]]
"""Limits by their scope, and by whether they are per tenant."""


class Own:
    """The limits that one tenant has of its own (`tenants/limits.py`)."""

    def __init__(self, limits: Iterable[Limit], declared: Mapping[str, bool]) -> None:
        """`declared` says of the topology's limits whether each is local."""
        self.limits = {limit.name: limit for limit in limits}
        self.of = _by_scope(self.limits.values())
        self.is_local = {**declared, **_are_local(self.limits)}


class Buckets:
    """Finds buckets by the limits of a topology, and by those that tenants have of their own."""

    def __init__(self, limits: tuple[Limit, ...], *, circuits: bool = False) -> None:
        self.limits = {limit.name: limit for limit in limits}
        if circuits:
            self.limits[CIRCUIT] = Limit(CIRCUIT, "tool", shared=False)
        self._is_local = _are_local(self.limits)
        self._declared = limits
        self._own: dict[str, Own] = {}
        self._of = _by_scope(limit for limit in limits if not limit.counts_calls)
        self._of_calls = _by_scope(limit for limit in limits if limit.counts_calls)
        remember = lru_cache(_REMEMBERED)
        self.of_pool = remember(self._of_pool)
        self.of_type = remember(self._of_type)
        self.of_tenant = remember(self._of_tenant)
        self._of_both = remember(self._of_tenant_and_type)
        self._keys_of_call = remember(self._found_for_call)
        of_jobs = any(scope in KEYED or per for scope, per in self._of)
        self._declares_of_jobs = of_jobs or circuits or bool(self._of_calls)
        self.are_of_jobs = self._declares_of_jobs
        self.shared = frozenset(
            limit.name for limit in limits if limit.is_shared and limit.concurrency is not None
        )
        """The limits whose places are permits, which a partition has to ask for."""
        self.shared_rates = frozenset(
            limit.name for limit in limits if limit.is_shared and limit.rate is not None
        )
        """The limits whose starts a partition has to ask for."""
        self.shared_of_type = remember(self._shared_of_type)

    def set_own(self, tenant_id: str, limits: tuple[Limit, ...]) -> None:
        """Give a tenant limits of its own; none takes what it had.

        Each replaces the topology's limit of its name for the tenant. It is passed over if that
        limit counts all tenants together: the topology may declare it later.
        """
        self._own.pop(tenant_id, None)
        named = ((each, self.limits.get(each.name)) for each in limits)
        kept = (each for each, declared in named if declared is None or declared.is_local)
        own = Own(kept, self._is_local)
        if own.limits:
            self._own[tenant_id] = own
        self.are_of_jobs = self._declares_of_jobs or bool(self._own)
        self.of_tenant.cache_clear()
        self._of_both.cache_clear()

    @property
    def count_by_keys(self) -> bool:
        """Whether any limit counts by values that stand on a job's row."""
        of = (self._of, *(own.of for own in self._own.values()))
        return any(scope in KEYED for each in of for scope, _ in each)

    def limits_of(self, tenant_id: str) -> tuple[Limit, ...]:
        """The limits that count a tenant's jobs: the topology's first, then its own."""
        own = self._own.get(tenant_id)
        if own is None:
            return self._declared
        return (*(e for e in self._declared if e.name not in own.limits), *own.limits.values())

    def limit(self, tenant_id: str, name: str) -> Limit | None:
        """The limit of a name, as it holds for a tenant (empty: for all together)."""
        own = self._own.get(tenant_id)
        return (own and own.limits.get(name)) or self.limits.get(name)

    def of_job(self, job: Counted) -> tuple[Bucket, ...]:
        """The buckets that neither its tenant nor its pool and type have alone.

        Shared ones come last, so that none is asked for before there is room in the others.
        """
        if not self.are_of_jobs and not job.keys:
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
        own = self._own.get(tenant_id)
        replaced: Container[str] = () if own is None else own.limits
        keys = tuple(key for key in self._keys_of_call(tool, model) if key[0] not in replaced)
        return tuple(self._of_keys(tenant_id, keys))

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
        per = [Bucket(name, tenant_id, "") for name, _, _ in self._found("global", "", per=True)]
        found = (*self._found("tenant", tenant_id), *per)
        return self._with_own(tenant_id, found, {("tenant", False): tenant_id})

    def _of_tenant_and_type(self, tenant_id: str, pool: str, type_: str) -> tuple[Bucket, ...]:
        """The buckets of a tenant's jobs of a pool or of a type."""
        found = self._found("pool", pool, per=True) + self._found("job_type", type_, per=True)
        buckets = tuple(bucket._replace(tenant_id=tenant_id) for bucket in found)
        return self._with_own(tenant_id, buckets, {("pool", True): pool, ("job_type", True): type_})

    def _with_own(
        self, tenant_id: str, found: tuple[Bucket, ...], values: dict[tuple[Scope, bool], str]
    ) -> tuple[Bucket, ...]:
        """Buckets of the topology's limits, and of a tenant's own, which replace some of them."""
        own = self._own.get(tenant_id)
        if own is None:
            return found
        added = (
            Bucket(limit.name, tenant_id, value)
            for scope, value in values.items()
            for limit, matches in own.of.get(scope, ())
            if matches(value)
        )
        return (*(bucket for bucket in found if bucket.limit not in own.limits), *added)

    def _of_keys(self, tenant_id: str, keys: Keys) -> list[Bucket]:
        own = self._own.get(tenant_id)
        is_local = self._is_local if own is None else own.is_local
        return [
            Bucket(name, tenant_id if is_local.get(name) else "", key)
            for name, key in keys
            if name in is_local or name.startswith(MARK)
        ]

    def _found_for_call(self, tool: str | None, model: str | None) -> Keys:
        values: tuple[tuple[Scope, str | None], ...] = ("tool", tool), ("model", model)
        return tuple(
            (limit.name, value)
            for scope, value in values
            if value is not None
            for per in (False, True)
            for limit, matches in self._of_calls.get((scope, per), ())
            if matches(value)
        )

    def _found(self, scope: Scope, value: str, *, per: bool = False) -> list[Bucket]:
        return [
            Bucket(limit.name, value if scope == "tenant" else "", value)
            for limit, matches in self._of.get((scope, per), ())
            if scope == "global" or matches(value)
        ]


def _are_local(limits: Mapping[str, Limit]) -> dict[str, bool]:
    return {name: limit.is_local for name, limit in limits.items()}


def _by_scope(limits: Iterable[Limit]) -> Found:
    found: Found = defaultdict(list)
    for limit in limits:
        matches = re.compile(translate(limit.match), re.DOTALL).fullmatch
        found[limit.scope, limit.per is not None].append((limit, matches))
    return found
