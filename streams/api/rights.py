"""What the caller may do, and in whose name: checks that calls and use cases share."""

from __future__ import annotations

from streams.access.permissions import ADMIN, Permission
from streams.access.principal import Principal
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal


def author(state: AppState, by: str | None) -> str:
    """Return the name under which a decision or a pause is kept.

    Raises:
        Refusal: 403, the caller names somebody else: one could decide as several people. Only an
            administrator's token may, which vouches for the name.
    """
    own = state.principal.id
    if by is None or by == own:
        return own
    if state.principal.is_person or not state.principal.may(ADMIN):
        told = f"you decide as {own} alone: leave `by` out"
        raise Refusal(403, "another-author", told)
    return by


def require_permission(principal: Principal, permission: Permission) -> None:
    """Check that a principal has a permission.

    Raises:
        Refusal: 403, it has not.
    """
    if not principal.may(permission):
        told = (
            f"{principal.name} has the role {principal.role}, which does not permit "
            f"`{permission}`: use a token that does"
        )
        raise Refusal(403, "permission-missing", told, permission=permission)


def require_every_tenant(principal: Principal) -> None:
    """Check that a principal may ask for what concerns all tenants together.

    Raises:
        Refusal: 403, its token is of some tenants.
    """
    if not principal.has_every_tenant:
        told = "this concerns all tenants, and your token is of some: use one of all tenants"
        raise Refusal(403, "every-tenant-needed", told)


def require_may_refer(principal: Principal, reference: str | None) -> None:
    """Check that a principal may name a secret by where it lies, if it does.

    The processes that use it read any variable and any file of theirs, also another tenant's.

    Raises:
        Refusal: 403, its token is of some tenants.
    """
    if reference is not None and not principal.has_every_tenant:
        told = (
            "a secret_ref names what lies beside the secrets of all tenants, and your token is of "
            "some: send the secret itself, or use a token of all tenants"
        )
        raise Refusal(403, "every-tenant-needed", told)
