"""Permissions, and the roles that are named sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Permission = Literal[
    "read", "payload:read", "operate", "approve", "settle", "configure", "secrets", "admin", "work"
]

READ: Permission = "read"
"""See everything except the content that senders and handlers keep private."""
PAYLOAD_READ: Permission = "payload:read"
"""See raw bodies of events, artifacts and sealed inputs."""
OPERATE: Permission = "operate"
"""Submit, cancel, retry, replay, discard, move, pause."""
APPROVE: Permission = "approve"
"""Decide about effects that wait for a person."""
SETTLE: Permission = "settle"
"""Say what became of an effect or step whose outcome is unknown."""
CONFIGURE: Permission = "configure"
"""Set tenants, sources, endpoints, schedules."""
SECRETS: Permission = "secrets"
"""Set and rotate signing secrets; see those that the operator makes."""
ADMIN: Permission = "admin"
"""Make and revoke tokens, erase tenants, rewrap the vault, read the audit."""
WORK: Permission = "work"
"""Dial the link and run jobs; no call of the API needs it."""

PERMISSIONS: tuple[Permission, ...] = get_args(Permission)

VIEWER, OPERATOR, APPROVER, ADMINISTRATOR = "viewer", "operator", "approver", "admin"
WORKER = "worker"

ROLES: Mapping[str, frozenset[str]] = {
    VIEWER: frozenset({READ}),
    OPERATOR: frozenset({READ, PAYLOAD_READ, OPERATE, SETTLE}),
    APPROVER: frozenset({READ, APPROVE}),
    WORKER: frozenset({WORK}),
    ADMINISTRATOR: frozenset(PERMISSIONS),
}
"""The roles that every deployment has."""

CUSTOM = "custom"
"""What stands for the role of a token that has a set of permissions of its own."""


def all_roles(own: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return the built-in roles, and those that a topology declares."""
    return {**{name: complete(given) for name, given in own.items()}, **ROLES}


def complete(given: Iterable[str]) -> frozenset[str]:
    """Return permissions as they count: a set of all others has `work`, too.

    So sets that an earlier release wrote for administrators still are those of administrators.
    """
    found = frozenset(given)
    return found | {WORK} if found >= ROLES[ADMINISTRATOR] - {WORK} else found


def in_order(permissions: Iterable[str]) -> list[str]:
    """Return permissions in the order in which they are documented."""
    given = set(permissions)
    return [name for name in PERMISSIONS if name in given]
