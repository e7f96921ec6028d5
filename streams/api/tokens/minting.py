"""Makes and revokes tokens; nobody makes one that may do more than they may."""

from __future__ import annotations

from dataclasses import replace

from streams.access import tokens
from streams.access.authentication import Authentication
from streams.access.permissions import ADMIN, CUSTOM, WORK
from streams.access.principal import Principal
from streams.access.token_records import EVERY_TENANT, PARTITION, TokenGrant
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.remedy import get
from streams.api.tenants.guards import known_tenant
from streams.api.tokens.last_administrator import (
    end_beside_another,
    is_last,
    last_administrator,
    matters,
)
from streams.api.tokens.once import write_once
from streams.api.tokens.table import is_within
from streams.api.tokens.token_request import DEFAULT_DAYS, TokenRequest
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key

_DAY_MS = 86_400_000


async def minted(
    state: AppState, access: Authentication, wanted: TokenRequest, key: str | None = None
) -> tuple[TokenGrant, str]:
    """Make a token; return what it grants, and its text, which is told this once.

    Under one idempotency key, a caller makes one token.

    Raises:
        Refusal: 403, it would go beyond the caller's own rights; 404, a tenant is unknown; 409, the
            key has made one before; 422, the role is unknown.
        KafkaUnavailable: it was not acknowledged: nobody has the token, make another one.
    """
    id_ = None if key is None else tokens.keyed_id(state.principal.id, key)
    token, now = tokens.mint(id_), wall_ms()
    grant = TokenGrant(
        id=token.id,
        name=wanted.name,
        role=wanted.role or CUSTOM,
        permissions=frozenset(wanted.permissions or ()),
        tenants=await _tenants(state, wanted),
        digest=token.digest,
        made_at=now,
        made_by=state.principal.id,
        expires_at=_expires_at(state.principal, access, wanted, now),
        pools=_patterns(wanted.pools),
        job_types=_patterns(wanted.job_types),
    )
    if grant.role != CUSTOM and grant.role not in access.book.roles:
        known = ", ".join(sorted(access.book.roles))
        raise invalid("role", f"{grant.role!r} is not one of {known}")
    _check_limits(access, grant)
    if not is_within(state.principal, access, grant):
        raise _beyond("its permissions or tenants are more than yours")
    if key is None:
        await _write(state, access, grant, now)
    else:
        await write_once(state, access, grant, now)
    return grant, token.text


async def revoked(state: AppState, access: Authentication, token_id: str) -> TokenGrant:
    """End a token at once; one that has ended already stays as it is.

    Raises:
        Refusal: 404, the caller knows no such token; 409, nobody could administer without it.
        KafkaUnavailable: it was not acknowledged: call again.
    """
    async with state.tenant_writes:
        grant = known_grant(state.principal, access, token_id)
        now = max(wall_ms(), grant.made_at + 1)
        if grant.revoked_at is not None:
            return grant
        ended = grant.revoked(now, state.principal.id)
        if not matters(access, grant, now):
            await _write(state, access, ended, now)
        elif is_last(access, grant, now):
            raise last_administrator()
        else:
            await end_beside_another(state, access, ended, now)
    return access.book.grant(token_id) or ended


def known_grant(principal: Principal, access: Authentication, token_id: str) -> TokenGrant:
    """Return a token that the caller may know of.

    Raises:
        Refusal: 404, there is none.
    """
    grant = access.book.grant(token_id)
    if grant is None or not is_within(principal, access, grant):
        all_ = get("tokens")
        raise unknown("token", token_id, f"{all_} lists them", all_)
    return grant


async def _tenants(state: AppState, wanted: TokenRequest) -> frozenset[str] | None:
    if wanted.tenants is None:
        return state.principal.tenants
    if wanted.tenants == [EVERY_TENANT]:
        return None
    for tenant_id in sorted(set(wanted.tenants)):
        await known_tenant(state, tenant_id)
    return frozenset(wanted.tenants)


def _expires_at(
    principal: Principal, access: Authentication, wanted: TokenRequest, now: int
) -> int:
    """Return when a new token ends; one that asks for no time ends with its maker's at the latest.

    Raises:
        Refusal: 403, it would outlive its maker's token.
    """
    own = access.expires_at(principal.id)
    at = now + (wanted.expires_days or DEFAULT_DAYS) * _DAY_MS
    if own is None or at <= own:
        return at
    if wanted.expires_days is not None:
        raise _beyond("it would outlive your token")
    return own


def _patterns(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(dict.fromkeys(given))


def _check_limits(access: Authentication, grant: TokenGrant) -> None:
    """Check that pools and job types limit a token that is a worker's and no administrator's.

    Raises:
        Refusal: 422, they do not.
    """
    if not grant.is_limited:
        return
    name = "pools" if grant.pools is not None else "job_types"
    unlimited = access.book.permissions(replace(grant, pools=None, job_types=None))
    if WORK not in unlimited:
        raise invalid(name, "only a token with the permission `work` has them")
    if ADMIN in unlimited:
        raise invalid(name, "a token with the permission `admin` cannot have them")


def _beyond(why: str) -> Refusal:
    return Refusal(403, "beyond-own-rights", f"you cannot make such a token: {why}")


async def _write(state: AppState, access: Authentication, grant: TokenGrant, at: int) -> None:
    record, known = grant.record(at), access.book.grant(grant.id)
    before = None if known is None else known.record(at)
    entry = state.entry(grant.id, before=before, after=record)
    await state.set_tenant(grant.key, record, PARTITION, entry)
    # Other operators read it within a second, and this one knows it from now on.
    access.book.apply(tenant_key(*grant.key), TENANT.encode(record))
