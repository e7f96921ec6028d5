"""What the groups of a person give them here: roles, and tenants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

EVERY_TENANT = "*"


@dataclass(frozen=True, slots=True)
class Granted:
    """What a person may do. `tenants` is None for all of them; `role` names each role."""

    role: str
    permissions: frozenset[str]
    tenants: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class GroupGrants:
    """Roles and tenants by group; `permissions` are those of each role.

    A person has the permissions of all their groups' roles, on the tenants of all their groups.
    Without any tenants here, each person has all tenants.
    """

    permissions: Mapping[str, frozenset[str]]
    roles: Mapping[str, str] = field(default_factory=dict)
    tenants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def relevant(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the groups that give something: a person may be in hundreds of others."""
        return tuple(sorted(set(groups) & (self.roles.keys() | self.tenants.keys())))

    def of(self, groups: Iterable[str]) -> Granted | None:
        """Return what these groups give together; None if that is nothing."""
        given = set(groups)
        names = sorted({self.roles[group] for group in given & self.roles.keys()})
        permissions = frozenset[str]().union(*(self.permissions.get(n, ()) for n in names))
        tenants = self._tenants(given)
        if not permissions or (tenants is not None and not tenants):
            return None
        return Granted("+".join(names), permissions, tenants)

    def _tenants(self, groups: set[str]) -> frozenset[str] | None:
        found = {tenant for group in groups for tenant in self.tenants.get(group, ())}
        return None if not self.tenants or EVERY_TENANT in found else frozenset(found)
