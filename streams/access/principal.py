"""A principal: who asks for something, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from streams.access.permissions import ADMINISTRATOR, ROLES


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. `id` stands in records, such as a job's `submitted_by`; `name` is for people.

    `id` is `operator` for the bootstrap token, `token:ID` for a token, and `person:ISSUER:SUBJECT`
    for a person. `tenants` is None for a principal of all tenants.
    """

    id: str
    name: str
    role: str
    permissions: frozenset[str]
    tenants: frozenset[str] | None = None

    @property
    def is_person(self) -> bool:
        """Return whether this is a person who signed in, and no token."""
        return self.id.startswith("person:")

    @property
    def turn(self) -> str:
        """Return whose turn it is, where a few must not keep others out.

        All who see the same tenants alone have one together.
        """
        return self.id if self.tenants is None else " ".join(sorted(self.tenants))

    def may(self, permission: str) -> bool:
        """Return whether the principal has a permission."""
        return permission in self.permissions

    def covers(self, tenant_id: str) -> bool:
        """Return whether the principal sees a tenant at all."""
        return self.tenants is None or tenant_id in self.tenants

    @property
    def has_every_tenant(self) -> bool:
        """Return whether the principal's calls may concern all tenants together."""
        return self.tenants is None

    def contains(self, permissions: frozenset[str], tenants: frozenset[str] | None) -> bool:
        """Return whether these permissions and tenants are the principal's own, or fewer."""
        if not permissions <= self.permissions:
            return False
        return self.tenants is None or (tenants is not None and tenants <= self.tenants)


BOOTSTRAP = Principal("operator", "operator", ADMINISTRATOR, ROLES[ADMINISTRATOR])
"""Whoever has TIDEGATE_ADMIN_TOKEN: the first token, with which others are made."""
