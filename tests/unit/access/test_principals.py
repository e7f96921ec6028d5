"""Roles are sets of permissions, and a principal's reach is its permissions and its tenants."""

from __future__ import annotations

import pytest

from streams.access.permissions import PERMISSIONS, ROLES, all_roles, in_order
from streams.access.principal import BOOTSTRAP, Principal


def principal(*permissions: str, tenants: frozenset[str] | None = None) -> Principal:
    return Principal("token:t", "t", "custom", frozenset(permissions), tenants)


def test_the_built_in_roles_are_the_documented_sets() -> None:
    assert {name: in_order(given) for name, given in ROLES.items()} == {
        "viewer": ["read"],
        "operator": ["read", "payload:read", "operate", "settle"],
        "approver": ["read", "approve"],
        "worker": ["work"],
        "admin": list(PERMISSIONS),
    }


def test_a_declared_role_stands_beside_the_built_in_ones_and_replaces_none() -> None:
    roles = all_roles({"support": ["read", "operate"], "viewer": ["admin"]})
    assert roles["support"] == {"read", "operate"}
    assert roles["viewer"] == {"read"}


def test_the_bootstrap_token_may_do_everything_everywhere() -> None:
    assert BOOTSTRAP.id == "operator"
    assert all(BOOTSTRAP.may(permission) for permission in PERMISSIONS)
    assert BOOTSTRAP.covers("any")
    assert BOOTSTRAP.has_every_tenant


def test_a_principal_of_some_tenants_covers_no_other() -> None:
    asked = principal("read", tenants=frozenset({"acme"}))
    assert asked.covers("acme")
    assert not asked.covers("beta")
    assert not asked.covers("")
    assert not asked.has_every_tenant
    assert not asked.may("operate")


@pytest.mark.parametrize(
    ("permissions", "tenants", "is_within"),
    [
        ({"read"}, {"acme"}, True),
        (set(), {"acme"}, True),
        ({"read"}, set(), True),
        ({"read", "operate"}, {"acme"}, False),
        ({"read"}, {"acme", "beta"}, False),
        ({"read"}, None, False),
    ],
)
def test_what_a_principal_may_give_away_is_no_more_than_it_has(
    permissions: set[str], tenants: set[str] | None, is_within: bool
) -> None:
    asked = principal("read", "approve", tenants=frozenset({"acme"}))
    wanted = None if tenants is None else frozenset(tenants)
    assert asked.contains(frozenset(permissions), wanted) is is_within
    assert BOOTSTRAP.contains(frozenset(permissions), wanted)
