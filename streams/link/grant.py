"""What a worker's token lets the worker run."""

from __future__ import annotations

from dataclasses import dataclass

from streams.runtime.link import Rights


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

    @property
    def rights(self) -> Rights:
        """What the worker may run, and declare."""
        return Rights(self.tenants, self.pools, self.job_types)

    def allows_pool(self, pool: str) -> bool:
        """Return whether the worker may take work of a pool."""
        return self.rights.allows_pool(pool)

    def allows_type(self, type_: str) -> bool:
        """Return whether the worker may run jobs of a type."""
        return self.rights.allows_type(type_)

    def covers(self, tenant_id: str) -> bool:
        """Return whether the worker may run jobs of a tenant."""
        return self.tenants is None or tenant_id in self.tenants
