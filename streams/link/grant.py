"""What a worker's token lets the worker run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of one connection.

    `id` is the token's, as the book has it, and empty for the bootstrap token. `pools` and
    `job_types` are names or globs, and None allows each. `tenants` is None for all tenants.
    """

    id: str
    name: str
    pools: tuple[str, ...] | None = None
    job_types: tuple[str, ...] | None = None
    tenants: frozenset[str] | None = None

    def allows_pool(self, pool: str) -> bool:
        """Return whether the worker may take work of a pool."""
        return _is_one_of(self.pools, pool)

    def allows_type(self, type_: str) -> bool:
        """Return whether the worker may run jobs of a type."""
        return _is_one_of(self.job_types, type_)

    def covers(self, tenant_id: str) -> bool:
        """Return whether the worker may run jobs of a tenant."""
        return self.tenants is None or tenant_id in self.tenants


def _is_one_of(patterns: Sequence[str] | None, name: str) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)
